"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.inputs.regime_values import in_regime, owner
from problems.inputs.values import Arguments, Call

FARTHER = 400
"""By what half the offsets are multiplied where values are huge: all logits of a token are then about as far from 0."""
HIGHEST = 87
"""About the largest logit whose exponential is a float32 number; six of them are too many for a sum."""
LEAST_GAP, LARGEST_GAP = 10.0, 12.5
"""How far all other words lie below a target that is certain: together they still make the loss."""


def make_inputs(call: Call) -> Arguments:
    """`vocab_parallel_logits` (B, S, Vl), `target` (B, S) int64, and no group.

    The offset per token overflows the exponential in float32 unless a maximum is subtracted; being the same on all
    ranks it leaves the loss what it is. Tokens differ in how sure the model is, by a log-normal spread of their logits.
    """
    offset = call.integers("offset", ("B", "S", 1), low=-120, high=121, dtype=torch.int32, shared=True)
    if call.setting("values", None) == "huge":
        offset = torch.where(offset % 2 == 1, offset * FARTHER, offset)
    spread = call.normal("spread", ("B", "S", 1), dtype=torch.float32, std=1.3, shared=True).exp_().mul_(3.0)
    if call.setting("rows", "usual") == "flat":
        offset, spread = HIGHEST - offset % 8, spread / 100
    logits = call.normal("vocab_parallel_logits", ("B", "S", "Vl"), dtype=torch.float32)
    return {
        "vocab_parallel_logits": _masked(call, logits.mul_(spread).add_(offset).to(call.dtype)),
        "target": _targets(call),
        "group": None,
    }


def _masked(call: Call, logits: Tensor) -> Tensor:
    """`logits` as the call's regime has them: some minus infinity, other values, or as they are."""
    kind, columns = call.setting("targets", None), call.dims["Vl"]
    if kind == "certain":
        logits = _certain(call)
    if kind == "not_on_one":
        logits.masked_fill_((call.rank - owner(call)) % call.world_size < _masked_ranks(call).unsqueeze(-1), -torch.inf)
    if kind == "second_halves":
        logits[..., : columns // 2] = -torch.inf
    return in_regime(call, "vocab_parallel_logits", logits)


def _masked_ranks(call: Call) -> Tensor:
    """How many ranks from the owner on hold no finite logit of a token (B, S): one at least, all but one at most."""
    return call.integers("masked ranks", ("B", "S"), low=1, high=call.world_size, shared=True)


def _certain(call: Call) -> Tensor:
    """Logits (B, S, Vl): those of all words but the target lie about as far below its own."""
    gap = call.uniform("gap", ("B", "S", 1), low=LEAST_GAP, high=LARGEST_GAP, dtype=torch.float32, shared=True)
    noise = call.uniform("noise", ("B", "S", "Vl"), low=-0.25, high=0.25, dtype=torch.float32)
    first = call.rank * call.dims["Vl"]
    words = torch.arange(first, first + call.dims["Vl"], device=call.device)
    return torch.where(_targets(call).unsqueeze(-1) == words, 0.0, noise - gap).to(call.dtype)


def _targets(call: Call) -> Tensor:
    """The words (B, S) whose losses are asked for, the same on all ranks."""
    target = call.integers("target", ("B", "S"), low=0, high=call.dims["V"], shared=True)
    columns, kind = call.dims["Vl"], call.setting("targets", None)
    if kind == "on_one":
        return target % columns + owner(call) * columns
    if kind == "not_on_one":
        masked = _masked_ranks(call)
        rank = owner(call) + masked + target // columns % (call.world_size - masked)
        return rank % call.world_size * columns + target % columns
    if kind == "second_halves":
        half = columns // 2
        return target - target % columns + half + target % columns % (columns - half)
    return target
