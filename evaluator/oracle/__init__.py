"""Trusted ranks: they draw inputs, compute expected outputs, compare, and run the reference. No submission here."""
