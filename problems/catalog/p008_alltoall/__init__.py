"""All-to-all of stacked matrices."""
