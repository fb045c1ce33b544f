"""The expected outputs, in float64."""

from torch import Tensor

from problems.catalog.p040_ddp.inputs import hyperparameters, make_inputs
from problems.families import mlp_step
from problems.families.mlp_step_spec import SHAPES
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """Parameters, first and second moments after the step, W1, b1, W2, b2 each."""
    root = make_inputs(call.at_rank(0))
    prefixes = ("", "exp_avg_", "exp_avg_sq_")
    w, m, v = (mlp_step.flat([root[prefix + name] for name in SHAPES]) for prefix in prefixes)
    updated = mlp_step.adam(w, m, v, mlp_step.mean_gradient(call, w), hyperparameters(call))
    return tuple(tensor for vector in updated for tensor in mlp_step.unflat(vector, call))
