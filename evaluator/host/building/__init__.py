"""Compiling a submission in a sandbox of its own, before any rank is held."""
