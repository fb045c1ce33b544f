"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.families import mlp_step
from problems.families.mlp_step_spec import SHAPES
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """The rank's samples, its shards of one model and of its moments, the shapes, and numbers that all show."""
    X, y = mlp_step.data(call)
    given = hyperparameters(call)
    m, v = moments(call)
    return {
        "X_local": X,
        "y_local": y,
        "flat_param_shard": _own(call, torch.cat([part.reshape(-1) for part in model(call)])),
        "param_shapes": tuple(call.shape(shape) for shape in SHAPES.values()),
        "exp_avg_shard": m,
        "exp_avg_sq_shard": v,
        "lr": given.lr,
        "beta1": given.beta1,
        "beta2": given.beta2,
        "eps": given.eps,
        "weight_decay": given.weight_decay,
        "step": given.step,
    }


def model(call: Call) -> list[Tensor]:
    """W1, b1, W2, b2, of which every rank has a shard."""
    return mlp_step.parameters(call, shared=True)


def moments(call: Call) -> tuple[Tensor, Tensor]:
    """The rank's shards of the first and second moments."""
    return (
        mlp_step.exp_avg(call, "exp_avg_shard", ("part",)),
        mlp_step.exp_avg_sq(call, "exp_avg_sq_shard", ("part",)),
    )


def _own(call: Call, flat: Tensor) -> Tensor:
    return flat[call.rank * call.dims["part"] : (call.rank + 1) * call.dims["part"]].clone()


def hyperparameters(call: Call) -> mlp_step.Hyperparameters:
    """The numbers of this call, in proportion to parameters and gradients; weight decay takes several per cent."""
    return mlp_step.hyperparameters(
        call,
        unit=mlp_step.gradient_unit(call),
        spread=call.dims["d_in"] ** -0.5,
        weight_decay=call.dims["d_in"] ** 0.5,
    )
