"""Reduce (sum) of one matrix to a destination rank."""
