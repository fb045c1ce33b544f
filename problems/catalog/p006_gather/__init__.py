"""Gather of matrices to a destination rank."""
