"""The expected outputs, in float64."""

import torch
from torch import Tensor

from problems.catalog.p024_load_balancing_loss_fn.inputs import counted_rows, routed
from problems.inputs.values import Call

_ROWS = 1 << 18
"""Rows taken at a time, to keep float64 copies small."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`loss`: the mean of all ranks' losses."""
    losses = [_local(call.at_rank(rank)) for rank in range(call.world_size)]
    return (torch.stack(losses).mean(),)


def _local(call: Call) -> Tensor:
    """The loss of one rank's tokens, of those that the mask leaves in."""
    logits, chosen = routed(call)
    if (counted := counted_rows(call)) is not None:
        logits, chosen = logits[counted], chosen[counted]
    counts = _choices(logits, chosen).double()
    means = torch.zeros_like(counts)
    for rows in logits.split(_ROWS):
        means += rows.double().softmax(dim=1).sum(dim=0)
    return call.dims["E"] * (means * counts).sum() / logits.shape[0] ** 2


def _choices(logits: Tensor, chosen: Tensor) -> Tensor:
    """How often each expert (E,) is among the `chosen` of a token, which are shown to be its largest logits.

    A token has at least as many logits that reach the smallest chosen one as are chosen. If all tokens together have no
    more, they are the chosen ones, and no other reaches them.

    Raises:
        RuntimeError: others do, so the choice is not what it should be.
    """
    least = logits.gather(1, chosen).amin(dim=1, keepdim=True)
    counts = (logits >= least).sum(dim=0)
    if int(counts.sum()) != chosen.numel():
        raise RuntimeError(f"{int(counts.sum())} logits reach the {chosen.numel()} chosen ones")
    return counts
