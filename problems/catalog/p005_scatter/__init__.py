"""Scatter of stacked matrices from a source rank."""
