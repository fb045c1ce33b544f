"""Processes and what they print, as any part of the host needs them."""
