"""Distributed sample sort with balanced output."""
