"""Rows of a sharded table, fetched and projected."""
