"""How many elements of a large output may be beyond their limit, and how far: the largest of many errors has no bound.

Why, with the figures: docs/decisions/0059-extremes-of-large-outputs.md. No torch.
"""

from math import cbrt

from problems.schema import Tolerance

ELEMENTS_PER_EXTREME = 10_000_000
"""So many elements of an output make room for one *extreme* element, beyond its limit."""


def most_extremes(tolerance: Tolerance, elements: int) -> int:
    """How many of an output's elements may be beyond their limit.

    None where there is no bound on the rms, which holds what all of them together can be off.
    """
    return 0 if tolerance.is_exact or tolerance.rms is None else elements // ELEMENTS_PER_EXTREME


def furthest(elements: int) -> float:
    """How far an extreme element may be off, in units of its limit: 2 in the smallest output that may have one.

    Errors of x limits are as rare as the power -3 of x, or rarer, so the largest of n grows with the cube root of n.
    """
    return 2.0 * cbrt(max(1.0, elements / ELEMENTS_PER_EXTREME))
