"""Variable all-to-all of token rows."""
