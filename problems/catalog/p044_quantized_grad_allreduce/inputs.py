"""Arguments of one rank for one call."""

import torch

from problems.inputs.regime_values import in_regime
from problems.inputs.values import Arguments, Call

ZERO_BLOCKS = 0.05
"""Fraction of blocks that are zero throughout, as the gradients of unused embeddings are."""
OUTLIERS = 3
"""Elements per block that are made large; two of them may coincide."""
LONG_BLOCK = 519
"""Of regimes with longer blocks one of these lies at the end, where sums over pairs may leave it out."""


def make_inputs(call: Call) -> Arguments:
    """`flat_grad` (n_el) and `block_size`.

    In every block a few elements are 40 times as large as the others: a step of the quantisation is then about as
    large as most elements, so that leaving it out, or choosing other blocks, shows. Blocks differ in scale by up to
    16, differently on every rank, and some are zero.
    """
    call = call.at_rank(0) if call.setting("same", usual=False) else call
    length, block = call.dims["n_el"], call.dims["block_size"]
    blocks = -(-length // block)
    values = call.normal("flat_grad", (blocks, block), dtype=torch.float32)
    places = call.integers("places", (blocks, OUTLIERS), low=0, high=block)
    if call.regime is not None and block > LONG_BLOCK:
        places[:, 0] = block - 1
    large = call.uniform("large", (blocks, OUTLIERS), low=30, high=50, dtype=torch.float32)
    # The largest where two coincide: which of two a scatter keeps is left to chance on GPUs.
    raised = torch.zeros_like(values).scatter_reduce_(1, places, large, reduce="amax")
    values = torch.where(raised > 0, raised * values.sign(), values)
    scale = call.uniform("scale", (blocks, 1), low=-2, high=2, dtype=torch.float32).exp2_()
    zero = call.uniform("zero", (blocks, 1), dtype=torch.float32) < ZERO_BLOCKS
    values.mul_(scale).masked_fill_(zero, 0.0)
    values.mul_(call.setting("scale", 1.0))
    if call.setting("halves", usual=False):
        values = _halves(call, blocks, block)
    flat_grad = in_regime(call, "flat_grad", values.flatten()[:length].to(call.dtype))
    return {"flat_grad": flat_grad, "block_size": block}


def _halves(call: Call, blocks: int, block: int) -> torch.Tensor:
    """Blocks (blocks, block) whose step is a power of two, each with 127 steps in front and else halves of steps."""
    steps = call.integers("regime's steps", (blocks, block), low=-16, high=16).float() + 0.5
    steps[:, 0] = 127.0
    return steps * call.integers("regime's sizes", (blocks, 1), low=-3, high=4).float().exp2_()
