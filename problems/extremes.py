"""How many elements of a large output may be beyond their limit, and how far: the largest of many errors has no bound.

Why, with the figures: docs/decisions/0059-extremes-of-large-outputs.md. No torch.
"""

from problems.schema import Tolerance

ELEMENTS_PER_EXTREME = 10_000_000
"""So many elements of an output make room for one *extreme* element, beyond its limit."""

_TAIL = 3
"""Rounding errors beyond x limits are rarer by the power -3 of x, or more: the largest of n grows as n to the 1/3."""


def most_extremes(tolerance: Tolerance, elements: int) -> int:
    """How many of an output's elements may be beyond their limit.

    None where there is no bound on the rms, which holds what all of them together can be off.
    """
    return 0 if tolerance.is_exact or tolerance.rms is None else elements // ELEMENTS_PER_EXTREME


def furthest(elements: int) -> float:
    """How far an extreme element may be off, in units of its limit: 2 in the smallest output that may have one."""
    return 2.0 * max(1.0, elements / ELEMENTS_PER_EXTREME) ** (1 / _TAIL)
