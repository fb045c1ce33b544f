"""Ranking of positive edges among their negatives."""
