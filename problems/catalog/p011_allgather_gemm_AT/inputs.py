"""Arguments of one rank for one call."""

from problems.families.zero_edges import in_edges
from problems.inputs.copied_values import copied
from problems.inputs.regime_values import columns_picked, magnitude, picks, unless_zero
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`A_local` (M, K_local), long-tailed as activations are, and `B` (K, N), both different on every rank."""
    right = call.normal("B", ("K", "N")).mul_(magnitude(call))
    right = columns_picked(call, right) if picks(call) else unless_zero(call, right)
    # On every second rank the first half of B is zero, and so all of its rows for some shards.
    parts = call.world_size if call.rank % 2 == 0 else 1
    return {
        "A_local": in_edges(call, copied(call, "A_local", call.long_tailed("A_local", ("M", "K_local")))),
        "B": in_edges(call, right, row_parts=parts),
    }
