"""Cooperative feature exchange of graph learning."""
