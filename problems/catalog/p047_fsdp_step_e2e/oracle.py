# ruff: noqa: PLC0415
# A spec counts by its data: until it is asked, the oracle must not load the modules that it is made from.
"""The expected outputs, in float64, and a comparison with room where gradients of ranks cancel."""

from collections.abc import Sequence

from torch import Tensor

from problems.catalog.p047_fsdp_step_e2e.inputs import hyperparameters, model, moments
from problems.families import mlp_step, mlp_step_rounding
from problems.inputs.values import Call
from problems.outputs.comparison import Comparison, compare_output


def expected(call: Call) -> tuple[Tensor, ...]:
    """The rank's shards (part) of the new parameters, first and second moments."""
    parameters, own = mlp_step.flat(model(call)), _own(call)
    gradient = mlp_step.mean_gradient(call, parameters, own)
    return mlp_step.adam(parameters[own], *moments(call), gradient, hyperparameters(call), decays=True)


def compare(call: Call, actual: Sequence[Tensor], expected: Sequence[Tensor]) -> tuple[Comparison, ...]:
    """By tolerance, with room for elements that rounding decides."""
    from problems.catalog.p047_fsdp_step_e2e.spec import PROBLEM

    parameters, own = mlp_step.flat(model(call)), _own(call)

    def after(gradient: Tensor) -> tuple[Tensor, ...]:
        return mlp_step.adam(parameters[own], *moments(call), gradient[own], hyperparameters(call), decays=True)

    return mlp_step_rounding.compare(
        call, PROBLEM.outputs_in(call.regime), actual, expected, by=compare_output, vector=parameters, after=after
    )


def _own(call: Call) -> slice:
    """Where the rank's shard lies."""
    return slice(call.rank * call.dims["part"], (call.rank + 1) * call.dims["part"])
