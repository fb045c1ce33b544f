"""One training step whose optimizer state is cut over ranks: what the problems of ZeRO stages 1 and 2 have in common.

The stages differ in how the gradient travels, not in what goes in and what every rank has to return.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from problems.families import mlp_step, mlp_step_rounding, stale_copies
from problems.families.mlp_step_rounding import Found
from problems.families.mlp_step_spec import SHAPES
from problems.inputs.values import Arguments, Call
from problems.spec.schema import Output


def make_inputs(call: Call) -> Arguments:
    """Samples, parameters, the rank's part of moments that are not zero, and numbers of which every one shows.

    All ranks have parameters of their own: those of rank 0 count.
    """
    X, y = mlp_step.data(call)
    given = hyperparameters(call)
    m, v = moments(call)
    return {
        "X_local": X,
        "y_local": y,
        **dict(zip(SHAPES, stale_copies.parameters(call), strict=True)),
        "exp_avg_part": m,
        "exp_avg_sq_part": v,
        "lr": given.lr,
        "beta1": given.beta1,
        "beta2": given.beta2,
        "eps": given.eps,
        "step": given.step,
    }


def moments(call: Call) -> tuple[Tensor, Tensor]:
    """The rank's parts of the first and second moments."""
    return (
        mlp_step.exp_avg(call, "exp_avg_part", ("part",)),
        mlp_step.exp_avg_sq(call, "exp_avg_sq_part", ("part",)),
    )


def hyperparameters(call: Call) -> mlp_step.Hyperparameters:
    """The numbers of this call, in proportion to parameters and gradients."""
    return mlp_step.hyperparameters(call, unit=mlp_step.gradient_unit(call), spread=call.dims["d_in"] ** -0.5)


def expected(call: Call) -> tuple[Tensor, ...]:
    """All new parameters W1, b1, W2, b2, and the rank's part of the new moments."""
    w, m, v = state(call)
    return after(call, w, m, v, mlp_step.mean_gradient(call, w))


def state(call: Call) -> tuple[Tensor, Tensor, Tensor]:
    """Rank 0's parameters, and all first and second moments, flat."""
    w = mlp_step.flat(mlp_step.parameters(call.at_rank(0)))
    every = [moments(call.at_rank(rank)) for rank in range(call.world_size)]
    m, v = (torch.cat(parts) for parts in zip(*every, strict=True))
    return w, m, v


def after(call: Call, w: Tensor, m: Tensor, v: Tensor, gradient: Tensor) -> tuple[Tensor, ...]:
    """The outputs of the rank after a step from this state with this mean gradient, all flat."""
    w, m, v = mlp_step.adam(w, m, v, gradient, hyperparameters(call))
    part = slice(call.rank * call.dims["part"], (call.rank + 1) * call.dims["part"])
    return (*mlp_step.unflat(w, call), m[part].clone(), v[part].clone())


def compare(
    call: Call,
    outputs: Sequence[Output],
    actual: Sequence[Tensor],
    right: Sequence[Tensor],
    *,
    by: Callable[[Output, Tensor, Tensor], Found],
) -> tuple[Found, ...]:
    """As `mlp_step_rounding.compare`, with the step of these problems."""
    w, m, v = state(call)
    return mlp_step_rounding.compare(call, outputs, actual, right, by=by, vector=w, after=partial(after, call, w, m, v))
