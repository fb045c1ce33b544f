"""Seasons: problems, a profile, dates and rules as data; teams, a board that freezes, a rejudge, opened sources."""
