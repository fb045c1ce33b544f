"""Backward of the cooperative feature exchange of graph learning."""
