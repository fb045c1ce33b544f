"""Distributed Sinkhorn-Knopp normalisation of teacher assignments."""
