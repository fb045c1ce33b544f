"""The expected outputs, in float64."""

from problems.families.zero_step import expected

__all__ = ("expected",)
