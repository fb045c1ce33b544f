"""Arguments of one rank for one call."""

from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`A_local` (M, K_local), long-tailed as activations are, and `B` (K, N), both different on every rank."""
    return {
        "A_local": call.long_tailed("A_local", ("M", "K_local")),
        "B": call.normal("B", ("K", "N")),
    }
