"""Template tags of models' runs."""
