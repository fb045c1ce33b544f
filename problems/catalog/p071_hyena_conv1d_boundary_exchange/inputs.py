"""Arguments of one rank for one call."""

from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`x` (B, C, 2 Lc), different on every rank, `weight` (C, 1, Kw), the same on all, and no group.

    Positions have long-tailed values, so that a halo squeezed into 8 bits under one scale per channel loses its
    smaller neighbours.
    """
    return {
        "x": call.long_tailed("x", ("B", "C", "L")),
        "weight": call.normal("weight", ("C", 1, "Kw"), shared=True),
        "group": None,
    }
