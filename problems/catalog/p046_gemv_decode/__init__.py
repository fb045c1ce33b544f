"""Vocabulary-parallel output projection for decoding."""
