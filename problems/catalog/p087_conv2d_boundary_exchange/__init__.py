"""Patch-parallel 2-D convolution with halo exchange."""
