"""How far rounding to bfloat16 can carry one element of an optimizer's step: where the gradients of ranks cancel.

Each rank rounds its gradient, and what it is made from. Where gradients of ranks, or of samples, are many times their
sum, these roundings are as large as the sum itself. Adam divides it by its own size, so that the step of such an
element may be another one: with gradients of 79 and -79 it was off by a third of the parameters' size. No bound for all
elements has room for that.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from problems.families import mlp_step
from problems.inputs.values import Call
from problems.spec.schema import Output

PIECE = 256
"""Longer products may be summed in pieces, as libraries for GPUs do, each piece and each sum of them rounded."""
_ROUNDINGS = 4.0
"""So many of these roundings count, each as large as that of the whole product."""
_UNIT = 2.0**-9
"""The largest error of rounding to bfloat16, as a part of the number; taken for the standard deviation of errors."""
_REACH = 6.0
"""So many standard deviations of a gradient count as within its rounding."""
_UNSURE = 0.5
"""Only an element that rounding can carry through this part of its limit has room for it."""
_OF_ALL = 10.0
"""Nor has it a limit above so many times that of all elements together, which few of them can reach."""
_MOST_PARAMETERS = 10_000_000
"""Larger networks have room for extreme elements anyway."""


class Judged(Protocol):
    """What is known of a compared output."""

    @property
    def passed(self) -> bool:
        """Whether it is right."""


Found = TypeVar("Found", bound=Judged)


def compare(
    call: Call,
    outputs: Sequence[Output],
    actual: Sequence[Tensor],
    expected: Sequence[Tensor],
    *,
    by: Callable[[Output, Tensor, Tensor], Found],
    vector: Tensor,
    after: Callable[[Tensor], tuple[Tensor, ...]],
) -> tuple[Found, ...]:
    """How outputs compare by the function `by`, which finds whether one `passed`.

    One that does not is looked at again, with room for rounding where it decides (`nearer`). `vector` (P) are the flat
    parameters, and `after` gives the outputs after a step with a flat mean gradient (P).
    """
    triples = list(zip(outputs, actual, expected, strict=True))
    found = [by(*triple) for triple in triples]
    refused = [place for place, one in enumerate(found) if not one.passed and not outputs[place].tolerance.is_exact]
    if not refused or len(vector) > _MOST_PARAMETERS:
        return tuple(found)
    gradient, spread = rounded_gradient(call, vector)
    others = [after(gradient + share * _REACH * spread) for share in (-1.0, -0.5, 0.5, 1.0)]
    for place in refused:
        output, mine, right = triples[place]
        room = torch.stack([(other[place] - right).abs() for other in others]).amax(0)
        found[place] = by(output, nearer(output, mine, right, room), right)
    return tuple(found)


def nearer(output: Output, actual: Tensor, expected: Tensor, room: Tensor) -> Tensor:
    """`actual`, of which elements that rounding can carry far are nearer to `expected` by their `room`."""
    tolerance, wide = output.tolerance, actual.double()
    size = expected.square().mean().sqrt()
    allowed = tolerance.atol * size + tolerance.rtol * expected.abs()
    if tolerance.rms is not None:
        allowed = allowed.clamp(max=_OF_ALL * tolerance.rms * size)
    is_unsure = (room > _UNSURE * allowed) & wide.isfinite()
    error = wide - expected
    return torch.where(is_unsure, expected + error.sign() * (error.abs() - room).clamp(min=0.0), wide)


def rounded_gradient(call: Call, vector: Tensor) -> tuple[Tensor, Tensor]:
    """The flat mean gradient (P) at the flat parameters, and the standard deviation of its error in bfloat16."""
    weights = mlp_step.unflat(vector, call)
    total = torch.zeros_like(vector)
    variance = torch.zeros_like(vector)
    for rank in range(call.world_size):
        own, error = _of_rank(weights, *(tensor.double() for tensor in mlp_step.data(call.at_rank(rank))))
        total += own
        # Every partial sum is rounded, and so is the gradient of each rank.
        variance += error + (own.square() + total.square()) * _UNIT**2
    return total / call.world_size, variance.sqrt() / call.world_size


def _of_rank(weights: list[Tensor], features: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The flat gradient over a rank's samples, and the variance that rounding before its sums gives it."""
    w1, b1, w2, b2 = weights
    unit = _UNIT**2
    product = features @ w1.T
    before = product + b1
    hidden = before.relu()
    hidden_error = unit * (product.square() + before.square())
    if features.shape[1] > PIECE:
        hidden_error += _ROUNDINGS * unit * (features.square() @ w1.square().T)
    is_active = (before > 0).double()
    crossed = _crossed(before, hidden_error)
    out = hidden @ w2.T
    error = out + b2 - targets
    out_error = hidden_error @ w2.square().T + unit * (out.square() + (out + b2).square() + error.square())
    scale = 2 / targets.numel()
    from_output, from_output_error = scale * error, scale**2 * out_error
    through = from_output @ w2
    from_hidden = through * is_active
    through_error = from_output_error @ w2.square() + unit * through.square()
    from_hidden_error = through_error * torch.maximum(is_active, crossed) + through.square() * crossed
    gradients = (from_hidden.T @ features, from_hidden.sum(0), from_output.T @ hidden, from_output.sum(0))
    variances = (
        from_hidden_error.T @ features.square(),
        from_hidden_error.sum(0),
        from_output_error.T @ hidden.square() + from_output.square().T @ hidden_error,
        from_output_error.sum(0),
    )
    return mlp_step.flat(list(gradients)), mlp_step.flat(list(variances))


def _crossed(before: Tensor, variance: Tensor) -> Tensor:
    """How likely rounding moves what goes into relu across its kink; never where nothing is rounded, as in zeros."""
    return torch.erfc(before.abs() / (2 * variance).sqrt()).where(variance > 0, 0.0) / 2
