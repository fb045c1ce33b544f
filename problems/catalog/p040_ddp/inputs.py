"""Arguments of one rank for one call."""

from problems.families import mlp_step, stale_copies
from problems.families.mlp_step_spec import SHAPES
from problems.inputs.regime_values import LARGEST
from problems.inputs.values import Arguments, Call

_LEAST = 2.0**-48
"""By what a regime multiplies W2, and so the first layer's gradients: float16 under one scale for all holds neither."""


def make_inputs(call: Call) -> Arguments:
    """Samples, parameters, moments that are not zero, and numbers of which every one shows.

    All ranks have parameters and moments of their own: those of rank 0 count.
    """
    X, y = mlp_step.data(call)
    weights = dict(zip(SHAPES, stale_copies.parameters(call), strict=True))
    if call.setting("weights", "") == "last_tiny":
        weights["W2"] *= _LEAST
    given = hyperparameters(call)
    return {
        "X_local": X,
        "y_local": y,
        **weights,
        **_moments(call),
        "lr": given.lr,
        "beta1": given.beta1,
        "beta2": given.beta2,
        "eps": given.eps,
        "step": given.step,
    }


def _moments(call: Call) -> Arguments:
    """First and then second moments, as small as gradients of the first layer that a regime has small."""
    named = SHAPES.items()
    drawn = {
        **{f"exp_avg_{name}": mlp_step.exp_avg(call, f"exp_avg_{name}", shape) for name, shape in named},
        **{f"exp_avg_sq_{name}": mlp_step.exp_avg_sq(call, f"exp_avg_sq_{name}", shape) for name, shape in named},
    }
    small, names = {"huge": (1 / LARGEST, ("W1",)), "last_tiny": (_LEAST, ("W1", "b1"))}.get(
        call.setting("weights", ""), (1.0, ())
    )
    for name in names:
        drawn[f"exp_avg_{name}"] *= small
        drawn[f"exp_avg_sq_{name}"] *= small**2
    return drawn


def hyperparameters(call: Call) -> mlp_step.Hyperparameters:
    """The numbers of this call, in proportion to parameters and gradients."""
    return mlp_step.hyperparameters(call, unit=mlp_step.gradient_unit(call), spread=call.dims["d_in"] ** -0.5)
