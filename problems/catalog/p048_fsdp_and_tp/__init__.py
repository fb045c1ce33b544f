"""Gated MLP with weights sharded in two dimensions."""
