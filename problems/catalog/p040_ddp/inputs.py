"""Arguments of one rank for one call."""

from problems.families import mlp_step
from problems.families.mlp_step_spec import SHAPES
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """Samples, parameters, moments that are not zero, and numbers of which every one shows.

    All ranks have parameters and moments of their own: those of rank 0 count.
    """
    X, y = mlp_step.data(call)
    weights = mlp_step.parameters(call)
    named = SHAPES.items()
    given = hyperparameters(call)
    return {
        "X_local": X,
        "y_local": y,
        **dict(zip(SHAPES, weights, strict=True)),
        **{f"exp_avg_{name}": mlp_step.exp_avg(call, f"exp_avg_{name}", shape) for name, shape in named},
        **{f"exp_avg_sq_{name}": mlp_step.exp_avg_sq(call, f"exp_avg_sq_{name}", shape) for name, shape in named},
        "lr": given.lr,
        "beta1": given.beta1,
        "beta2": given.beta2,
        "eps": given.eps,
        "step": given.step,
    }


def hyperparameters(call: Call) -> mlp_step.Hyperparameters:
    """The numbers of this call, in proportion to parameters and gradients."""
    return mlp_step.hyperparameters(call, unit=mlp_step.gradient_unit(call), spread=call.dims["d_in"] ** -0.5)
