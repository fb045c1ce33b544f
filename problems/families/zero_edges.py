"""Matrices that begin and end with zeros, as the regime of `zero_edges_spec` has them."""

from torch import Tensor

from problems.inputs.values import Call


def in_edges(call: Call, matrix: Tensor, *, row_parts: int = 1) -> Tensor:
    """`matrix`; in a call with zero edges its outermost columns, and rows of each of `row_parts` parts, are zero."""
    if call.setting("edges", "usual") == "zero":
        parts = matrix.view(row_parts, -1, matrix.shape[1])
        parts[:, [0, -1]] = 0
        parts[:, :, [0, -1]] = 0
    return matrix
