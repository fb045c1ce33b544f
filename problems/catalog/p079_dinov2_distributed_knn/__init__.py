"""Distributed k-nearest-neighbour search."""
