"""Arguments of one rank for one call."""

from problems.families.zero_step import make_inputs

__all__ = ("make_inputs",)
