"""Standings and leaderboards: the only code that decides the order of entries."""
