"""Submitting, the queue, evaluations and their reports."""
