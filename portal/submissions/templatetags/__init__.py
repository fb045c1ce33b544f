"""Template tags of a submission's page."""
