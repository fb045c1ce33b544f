"""Hyena long convolution with context parallelism."""
