"""Vocabulary-parallel cross entropy."""
