"""Matrices that begin and end with zeros, as the regime of `zero_edges_spec` has them, or look empty."""

from torch import Tensor

from problems.inputs.regime_values import is_exact, owner
from problems.inputs.values import Call


def in_edges(call: Call, matrix: Tensor, *, row_parts: int = 1) -> Tensor:
    """`matrix`, each of whose `row_parts` parts of rows is what the call's edges make of it."""
    edges = call.setting("edges", "usual")
    if edges == "usual":
        return matrix
    parts = matrix.view(row_parts, -1, matrix.shape[1])
    # On one rank alone: sums of addends of one sign are rounded more than those of independent signs.
    if edges == "negative" and call.rank == owner(call):
        parts.abs_().neg_()
    if edges in ("zero", "negative"):
        parts[:, [0, -1]] = 0
        parts[:, :, [0, -1]] = 0
    if edges == "zero":
        parts[:, : parts.shape[1] // 2] = 0
    if edges == "opposite":
        flat = parts.flatten(1)
        half = flat.shape[1] // 2
        flat[:, half:] = 0
        flat[:, -half:] = -flat[:, :half]
    if edges == "whole" and not is_exact(call):
        # Whose sums 16-bit integers do not hold, but float16 does.
        most = min(16_000, 60_000 // call.world_size)
        parts.mul_(1 << 12).round_().clamp_(-most, most)
        # The largest one at the same place on all ranks: a sum may be as many times larger as there are ranks.
        parts[:, -1, -1] = most
    return matrix
