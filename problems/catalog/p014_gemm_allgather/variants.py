"""Programs that must pass and programs that must fail."""

import torch
from torch import Tensor

from problems.families.rank_parts import all_gathered


def in_float32(A: Tensor, B: Tensor) -> Tensor:
    """The product in float32, rounded before it travels."""
    return torch.cat(all_gathered((A.float() @ B.float()).to(A.dtype)), dim=1)


def operands_gathered(A: Tensor, B: Tensor) -> Tensor:
    """Sends the operands of all ranks and multiplies every pair."""
    pairs = zip(all_gathered(A), all_gathered(B), strict=True)
    return torch.cat([left @ right for left, right in pairs], dim=1)


def rows_in_blocks(A: Tensor, B: Tensor) -> Tensor:
    """Four blocks of rows, each multiplied and gathered before the next."""
    return torch.cat([torch.cat(all_gathered(block @ B), dim=1) for block in A.chunk(4)])


def own_left_operand(A: Tensor, B: Tensor) -> Tensor:
    """Gathers the right operands and multiplies by the own left one: right only where A is replicated."""
    return A @ torch.cat(all_gathered(B), dim=1)


def stacked(A: Tensor, B: Tensor) -> Tensor:
    """The gathered bytes taken for rows of the result."""
    return torch.cat(all_gathered(A @ B)).view(A.shape[0], -1)


def interleaved(A: Tensor, B: Tensor) -> Tensor:
    """Column j of every block before column j + 1 of any."""
    return torch.stack(all_gathered(A @ B), dim=2).flatten(1)


HONEST = {"float32": in_float32, "operands_gathered": operands_gathered, "rows_in_blocks": rows_in_blocks}
MUTANTS = {"own_left_operand": own_left_operand, "stacked": stacked, "interleaved": interleaved}
