"""Arguments of one rank for one call."""

import math

import torch

from problems.inputs.regime_values import owner
from problems.inputs.values import Arguments, Call

LEAST = 0.4
"""Tokens of the least busy rank (the one without any left aside) as a share of the busiest rank's."""


def make_inputs(call: Call) -> Arguments:
    """Five 0-dim tensors: a loss, two token counts and two incoming gradients of the same sign and weight.

    Ranks with more tokens have larger losses, so that a mean without weights is far from the one with weights. One
    rank, never the last, has no token at all; its loss is NaN or infinite, as a mean over nothing is.
    """
    counts = token_counts(call)
    own, total = counts[call.rank], sum(counts)
    sign = 2 * int(call.integers("sign", (), low=0, high=2)) - 1
    gradient = sign * _draw(call, "grad_normalized_loss", low=-4, high=4) * call.setting("gradient_size", 1.0)
    second = gradient / total * _draw(call, "grad_loss_sum", low=-1, high=1)
    second *= float(call.setting("second_gradient", 1.0))
    return {
        "loss": _scalar(call, _loss(call, counts)),
        "local_valid_tokens": torch.tensor(own, device=call.device),
        "global_valid_tokens": torch.tensor(total, device=call.device),
        "grad_normalized_loss": _scalar(call, gradient * call.setting("first_gradient", 1.0)),
        "grad_loss_sum": None if call.setting("single_gradient", usual=False) else _scalar(call, second),
    }


def token_counts(call: Call) -> list[int]:
    """Tokens per rank: steps from `LEAST` to 1 of a secret maximum in a secret order, and 0 on one rank."""
    ranks = call.world_size
    most = call.dims["M"] * call.dims["N"] * _draw(call, "most", low=-6, high=0, shared=True)
    most = call.setting("most_tokens", most)
    jitter = call.uniform("jitter", (ranks,), low=0.95, high=1.0, dtype=torch.float64, shared=True).tolist()
    who = call.setting("who_has_tokens", None)
    if who == "one":
        return [round(most) if rank == owner(call) else 0 for rank in range(ranks)]
    if who == "all":
        return [max(1, round(most * factor * (rank + 1) / ranks)) for rank, factor in enumerate(jitter)]
    steps = torch.linspace(LEAST, 1.0, ranks - 1, dtype=torch.float64)
    shares = steps[call.permutation("order", ranks - 1, shared=True).cpu()].tolist()
    empty = int(call.integers("empty", (), low=0, high=ranks - 1, shared=True))
    shares.insert(ranks - 1 if who == "not_the_last" else empty, 0.0)
    counts = (share and max(1, round(most * share * factor)) for share, factor in zip(shares, jitter, strict=True))
    return [int(count) for count in counts]


def _loss(call: Call, counts: list[int]) -> float:
    """Between 1 and 5 times a secret scale, rising with the tokens; NaN or infinite without any.

    In one regime it is below zero, down to minus infinity.
    """
    own, is_negative = counts[call.rank], call.setting("losses", None) == "negative"
    if own == 0:
        return -math.inf if is_negative else (math.nan, math.inf)[int(call.integers("nothing", (), low=0, high=2))]
    scale = _draw(call, "scale", low=-3, high=3, shared=True) * (-1 if is_negative else 1)
    return scale * (1 + 3.5 * own / max(counts) + 0.5 * _draw(call, "loss", low=-1, high=0))


def _draw(call: Call, name: str, *, low: float, high: float, shared: bool = False) -> float:
    """A power of two with an exponent between `low` and `high`."""
    exponent = float(call.uniform(name, (), low=low, high=high, dtype=torch.float64, shared=shared))
    return math.exp2(exponent)


def _scalar(call: Call, value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64, device=call.device).to(call.dtype)
