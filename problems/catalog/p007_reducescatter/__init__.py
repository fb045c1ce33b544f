"""Reduce-scatter (sum) along rows."""
