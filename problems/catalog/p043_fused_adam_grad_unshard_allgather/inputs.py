"""Arguments of one rank for one call."""

import torch

from problems.families import mlp_step
from problems.inputs.regime_values import LARGEST, SMALLEST, in_regime, magnitude
from problems.inputs.values import Arguments, Call

_SIZES = {"tiny": SMALLEST, "huge": LARGEST, "zero": 0.0}
"""By what regimes multiply parameters and, but for zero, the learning rate."""


def make_inputs(call: Call) -> Arguments:
    """The rank's shards, none of them zero, and numbers of which every one shows in the result."""
    style = call.setting("parameters", "")
    second = call.normal("exp_avg_sq", ("P",), std=0.7, dtype=torch.float32).exp_().mul_(0.1 * magnitude(call) ** 2)
    given = hyperparameters(call)
    gradient = in_regime(call, "grad_shard", call.normal("grad_shard", ("P",)))
    if call.setting("first_half", "") == "zero":
        gradient[: len(gradient) // 2] = 0.0
    return {
        "grad_shard": gradient,
        "master_shard": call.long_tailed("master_shard", ("P",)).mul_(_SIZES.get(style, 1.0)),
        "exp_avg": mlp_step.moment(call, call.normal("exp_avg", ("P",), std=0.25 * magnitude(call))),
        "exp_avg_sq": mlp_step.moment(call, second.to(call.dtype), is_second=True),
        "lr": given.lr,
        "beta1": given.beta1,
        "beta2": given.beta2,
        "eps": given.eps,
        "step": given.step,
    }


def hyperparameters(call: Call) -> mlp_step.Hyperparameters:
    """The numbers of this call, in proportion to gradients and parameters of size 1."""
    return mlp_step.hyperparameters(
        call, unit=magnitude(call), spread=_SIZES.get(call.setting("parameters", ""), 1.0) or 1.0
    )
