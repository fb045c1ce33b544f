"""The judge's code in a sandbox rank, beside the submission."""
