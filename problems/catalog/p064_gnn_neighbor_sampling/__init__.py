"""Distributed multi-hop neighbour sampling."""
