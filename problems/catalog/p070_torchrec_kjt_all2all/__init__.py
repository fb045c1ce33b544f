"""Redistribution of jagged features of a recommender."""
