"""Distributed discrete-continuous convolution on the sphere."""
