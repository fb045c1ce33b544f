"""What runs in a sandbox rank beside the submission."""
