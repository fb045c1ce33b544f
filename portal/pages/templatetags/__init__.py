"""Template tags of the frame of every page."""
