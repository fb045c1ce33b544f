"""Gradient-norm clipping over sharded gradients."""
