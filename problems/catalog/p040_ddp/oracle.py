# ruff: noqa: PLC0415
# A spec counts by its data: until it is asked, the oracle must not load the modules that it is made from.
"""The expected outputs, in float64, and a comparison with room where gradients of ranks cancel."""

from collections.abc import Sequence
from functools import partial

from torch import Tensor

from problems.catalog.p040_ddp.inputs import hyperparameters, make_inputs
from problems.families import mlp_step, mlp_step_rounding
from problems.families.mlp_step_spec import SHAPES
from problems.inputs.values import Call
from problems.outputs.comparison import Comparison, compare_output


def expected(call: Call) -> tuple[Tensor, ...]:
    """Parameters, first and second moments after the step, W1, b1, W2, b2 each."""
    w, m, v = _state(call)
    return _after(call, w, m, v, mlp_step.mean_gradient(call, w))


def compare(call: Call, actual: Sequence[Tensor], expected: Sequence[Tensor]) -> tuple[Comparison, ...]:
    """By tolerance, with room for elements that rounding decides."""
    from problems.catalog.p040_ddp.spec import PROBLEM

    w, m, v = _state(call)
    return mlp_step_rounding.compare(
        call,
        PROBLEM.outputs_in(call.regime),
        actual,
        expected,
        by=compare_output,
        vector=w,
        after=partial(_after, call, w, m, v),
    )


def _state(call: Call) -> tuple[Tensor, ...]:
    """Rank 0's parameters, first and second moments, flat."""
    root = make_inputs(call.at_rank(0))
    return tuple(mlp_step.flat([root[prefix + name] for name in SHAPES]) for prefix in ("", "exp_avg_", "exp_avg_sq_"))


def _after(call: Call, w: Tensor, m: Tensor, v: Tensor, gradient: Tensor) -> tuple[Tensor, ...]:
    updated = mlp_step.adam(w, m, v, gradient, hyperparameters(call))
    return tuple(tensor for vector in updated for tensor in mlp_step.unflat(vector, call))
