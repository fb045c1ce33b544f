"""The expected outputs, in float64."""

from torch import Tensor

from problems.catalog.p047_fsdp_step_e2e.inputs import hyperparameters, model, moments
from problems.families import mlp_step
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """The rank's shards (part) of the new parameters, first and second moments."""
    parameters = mlp_step.flat(model(call))
    own = slice(call.rank * call.dims["part"], (call.rank + 1) * call.dims["part"])
    gradient = mlp_step.mean_gradient(call, parameters, own)
    return mlp_step.adam(parameters[own], *moments(call), gradient, hyperparameters(call), decays=True)
