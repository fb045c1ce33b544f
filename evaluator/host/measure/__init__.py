"""Calls of a submission and of the reference: made, compared, timed, kept as evidence."""
