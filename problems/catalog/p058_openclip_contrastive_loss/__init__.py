"""Distributed SigLIP loss."""
