"""How many elements of a large output may be beyond their limit, and how far: the largest of many errors has no bound.

Why: docs/decisions/0059-extremes-of-large-outputs.md. No torch.
"""

from math import cbrt

from problems.spec.schema import Tolerance

LEAST_ELEMENTS = 10_000_000
"""Outputs of fewer elements have none beyond a limit."""

ELEMENTS_PER_EXTREME = 1_000_000
"""So many elements of a larger output make room for one *extreme* element, beyond its limit."""

_NEAREST = 4.0


def most_extremes(tolerance: Tolerance, elements: int) -> int:
    """How many of an output's elements may be beyond their limit.

    None where there is no bound on the rms, which holds what all of them together can be off.
    """
    is_concerned = elements >= LEAST_ELEMENTS and tolerance.rms is not None and not tolerance.is_exact
    return elements // ELEMENTS_PER_EXTREME if is_concerned else 0


def furthest(elements: int) -> float:
    """How far an extreme element may be off, in units of its limit: 4 up to 80 million elements.

    Errors of x limits are as rare as the power -3 of x, or rarer, so the largest of n grows with the cube root of n.
    """
    return max(_NEAREST, 2.0 * cbrt(elements / LEAST_ELEMENTS))
