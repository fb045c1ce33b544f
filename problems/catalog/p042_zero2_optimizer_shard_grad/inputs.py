"""Arguments of one rank for one call."""

from problems import mlp_step
from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """Samples, parameters, the rank's part of moments that are not zero, and numbers of which every one shows.

    All ranks have parameters of their own: those of rank 0 count.
    """
    X, y = mlp_step.data(call)
    given = hyperparameters(call)
    return {
        "X_local": X,
        "y_local": y,
        **dict(zip(mlp_step.SHAPES, mlp_step.parameters(call), strict=True)),
        "exp_avg_part": mlp_step.exp_avg(call, "exp_avg_part", ("part",)),
        "exp_avg_sq_part": mlp_step.exp_avg_sq(call, "exp_avg_sq_part", ("part",)),
        "lr": given.lr,
        "beta1": given.beta1,
        "beta2": given.beta2,
        "eps": given.eps,
        "step": given.step,
    }


def hyperparameters(call: Call) -> mlp_step.Hyperparameters:
    """The numbers of this call, in proportion to parameters and gradients."""
    return mlp_step.hyperparameters(call, unit=mlp_step.gradient_unit(call), spread=call.dims["d_in"] ** -0.5)
