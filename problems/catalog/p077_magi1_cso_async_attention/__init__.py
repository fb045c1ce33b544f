"""Context-shuffle-overlap block attention."""
