"""Who goes before whom: people's submissions, then runs, then what an operator has judged again."""

BULK_PRIORITY = -1
"""Runs wait for people: a person's submission goes before hundreds of attempts."""
REJUDGE_PRIORITY = -2
