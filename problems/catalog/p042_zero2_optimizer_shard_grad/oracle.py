"""What each rank owes, in float64."""

from problems.families.zero_step import expected

__all__ = ("expected",)
