"""Template tags that other apps' pages use."""
