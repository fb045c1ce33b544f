"""Two pipeline stages of attention, each over a context group."""
