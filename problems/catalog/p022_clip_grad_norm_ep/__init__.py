"""Gradient-norm clipping with expert-parallel parameters."""
