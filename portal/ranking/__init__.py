"""Standings and leaderboards: the one place that knows who is ahead of whom."""
