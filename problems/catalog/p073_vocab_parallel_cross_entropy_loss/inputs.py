"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.inputs.regime_values import in_regime, owner
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`vocab_parallel_logits` (B, S, Vl), `target` (B, S) int64, and no group.

    The offset per token overflows the exponential in float32 unless a maximum is subtracted; being the same on all
    ranks it leaves the loss what it is. Tokens differ in how sure the model is, by a log-normal spread of their logits.
    """
    offset = call.integers("offset", ("B", "S", 1), low=-120, high=121, dtype=torch.int32, shared=True)
    spread = call.normal("spread", ("B", "S", 1), dtype=torch.float32, std=1.3, shared=True).exp_().mul_(3.0)
    logits = call.normal("vocab_parallel_logits", ("B", "S", "Vl"), dtype=torch.float32)
    return {
        "vocab_parallel_logits": _masked(call, logits.mul_(spread).add_(offset).to(call.dtype)),
        "target": _targets(call),
        "group": None,
    }


def _masked(call: Call, logits: Tensor) -> Tensor:
    """`logits` as the call's regime has them: one rank's minus infinity, other values, or as they are."""
    masked = call.setting("targets", None)
    if masked == "not_on_one" and call.rank == owner(call):
        return torch.full_like(logits, -torch.inf)
    if masked == "second_halves":
        logits[..., : call.dims["Vl"] // 2] = -torch.inf
    return in_regime(call, "vocab_parallel_logits", logits)


def _targets(call: Call) -> Tensor:
    """The words (B, S) whose losses are asked for, the same on all ranks."""
    target = call.integers("target", ("B", "S"), low=0, high=call.dims["V"], shared=True)
    columns, kind = call.dims["Vl"], call.setting("targets", None)
    if kind == "on_one":
        return target % columns + owner(call) * columns
    if kind == "not_on_one":
        return (target + columns * (target // columns == owner(call))) % call.dims["V"]
    if kind == "second_halves":
        masked = columns // 2
        return target - target % columns + masked + target % columns % (columns - masked)
    return target
