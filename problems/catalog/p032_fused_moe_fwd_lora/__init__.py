"""A mixture-of-experts layer with low-rank adapters."""
