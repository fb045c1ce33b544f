"""Compiles a submission in its own sandbox, before it occupies ranks."""
