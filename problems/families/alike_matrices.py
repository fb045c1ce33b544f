"""Matrices that samples and sums do not tell apart, though they differ: for programs that only move them."""

import torch
from torch import Tensor

from problems.inputs.values import Call

_LARGEST = 15
"""Sums of squares are then exact in float32, as the regime has few elements."""


def maybe_alike(call: Call, name: str, tensor: Tensor) -> Tensor:
    """`tensor` (..., M, N), drawn by the rank as `name`; in a call of alike matrices, others in its place.

    All of them, on all ranks, hold the same small whole numbers in orders of their own. For each number its negative is
    there, so that they add up to zero. Outermost rows and columns are zero where there are others.
    """
    if call.setting("matrices", "usual") != "alike":
        return tensor
    *stack, rows, columns = tensor.shape
    row_edge, column_edge = int(rows > 2), int(columns > 2)
    inner = (rows - 2 * row_edge, columns - 2 * column_edge)
    count = inner[0] * inner[1]
    half = call.integers(f"{name}: whole", (count // 2,), low=1, high=_LARGEST + 1, shared=True)
    numbers = torch.cat((half, -half, half.new_zeros(count % 2))).to(tensor.dtype)
    order = call.uniform(f"{name}: order", (*stack, count), dtype=torch.float32).argsort(dim=-1)
    alike = torch.zeros_like(tensor)
    inside = alike[..., row_edge : rows - row_edge, column_edge : columns - column_edge]
    inside.copy_(numbers[order].view(inside.shape))
    return alike


def first_of_equal_sums(stack: Tensor) -> Tensor:
    """A narrow program's `stack` (W, M, N): for each matrix, the first one with the same sum of squares."""
    sums = stack.double().square().flatten(1).sum(dim=1)
    is_equal, own = sums[:, None] == sums, torch.arange(len(stack), device=stack.device)
    return stack[torch.where(is_equal.any(dim=1), is_equal.int().argmax(dim=1), own)]
