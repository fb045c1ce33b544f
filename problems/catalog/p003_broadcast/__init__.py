"""Broadcast of one matrix from a source rank."""
