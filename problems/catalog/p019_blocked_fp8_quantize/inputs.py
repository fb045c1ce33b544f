"""Arguments of one rank for one call."""

import torch

from problems.inputs.regime_values import in_regime
from problems.inputs.values import Arguments, Call

ZERO_BLOCKS = 0.06
"""Fraction of blocks that are zero throughout, as the rows of padding tokens are."""


def make_inputs(call: Call) -> Arguments:
    """`local_tensor` (M, N) and `block_size`.

    Every block has a scale of its own between 2^-10 and 2^6 and long tails inside, so that codes reach from
    subnormals to the largest number and no coarser scale will do.
    """
    rows, width, block = call.dims["M"], call.dims["N"], call.dims["block_size"]
    shape = (rows, width // block, 1)
    scale = call.uniform("scale", shape, low=-10, high=6, dtype=torch.float32).exp2_()
    zero = call.uniform("zero", shape, dtype=torch.float32) < ZERO_BLOCKS
    values = call.long_tailed("local_tensor", (rows, width // block, block), dtype=torch.float32)
    values.mul_(scale).masked_fill_(zero, 0.0)
    values.mul_(call.setting("scale", 1.0))
    if (edges := call.setting("edges", "usual")) == "large":
        values[..., -1] = 2.0 * values.abs().amax(dim=-1)
    elif edges == "zero":
        values[[0, -1]] = 0.0
        values[..., [0, 1, 2, -1]] = 0.0
        values = torch.where(call.integers("regime's pairs", shape, low=0, high=2) == 1, _pairs(values), values)
    if call.setting("halves", usual=False):
        values = _halves(call, (rows, width // block, block))
    local = in_regime(call, "local_tensor", values.view(rows, width).to(call.dtype))
    return {"local_tensor": local, "block_size": block}


def _pairs(values: torch.Tensor) -> torch.Tensor:
    """Zeros but for one of the `values` of each block and, near its end, the same with the other sign."""
    pairs = torch.zeros_like(values)
    pairs[..., 4] = values[..., 4]
    pairs[..., -3] = -values[..., 4]
    return pairs


def _halves(call: Call, shape: tuple[int, int, int]) -> torch.Tensor:
    """Blocks whose scale is a power of two: one element of 448 in front, and else numbers half-way between two codes.

    Codes have 4 significant bits, so that these have 5, the last of them set; an eighth lies between subnormal codes.
    """
    significand = 2 * call.integers("regime's significands", shape, low=8, high=16).float() + 1
    exponent = call.integers("regime's exponents", shape, low=-10, high=4).float()
    is_small = call.uniform("regime's subnormals", shape, dtype=torch.float32) < 1 / 8
    halves = torch.where(is_small, (significand - 16) * 2.0**-10, significand * exponent.exp2())
    halves *= 2 * call.integers("regime's signs", shape, low=0, high=2) - 1
    halves[..., 0] = 448.0
    return halves * call.integers("regime's sizes", (*shape[:2], 1), low=-10, high=7).float().exp2_()
