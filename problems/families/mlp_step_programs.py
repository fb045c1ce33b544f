"""Pieces of training programs for the network of `mlp_step`, for variants that write a step out by hand."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.mlp_step_rounding import PIECE
from problems.families.rank_parts import all_gathered


def mean(vector: Tensor) -> Tensor:
    """The mean over ranks by an all-reduce."""
    dist.all_reduce(vector)
    return vector / dist.get_world_size()


def backward(
    X: Tensor, y: Tensor, W1: Tensor, b1: Tensor, W2: Tensor, b2: Tensor, *, passes_at_zero: bool = False
) -> Tensor:
    """The flat gradient of the rank's loss, by hand; `passes_at_zero` takes the derivative of relu at 0 for 1."""
    before = torch.addmm(b1, X, W1.T) if X.shape[1] <= PIECE else product(X, W1.T) + b1
    hidden = before.relu()
    from_output = (product(hidden, W2.T) + b2 - y) * (2 / y.numel())
    from_hidden = product(from_output, W2) * (before >= 0 if passes_at_zero else before > 0)
    parts = [product(from_hidden.T, X), from_hidden.sum(0), product(from_output.T, hidden), from_output.sum(0)]
    return torch.cat([part.reshape(-1) for part in parts])


def product(left: Tensor, right: Tensor) -> Tensor:
    """`left` @ `right` as libraries for GPUs sum long products: in pieces, with each sum of pieces rounded."""
    total, *pieces = map(torch.matmul, left.split(PIECE, dim=1), right.split(PIECE))
    for piece in pieces:
        total += piece
    return total


def cut(flat: Tensor, shapes: list[torch.Size]) -> list[Tensor]:
    """`flat` as tensors of these shapes, one after the other."""
    parts = flat.split([shape.numel() for shape in shapes])
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


def gathered(part: Tensor) -> Tensor:
    """All ranks' parts of equal length, joined, by an all-gather."""
    return torch.cat(all_gathered(part))


def as_it_is(gradient: Tensor) -> Tensor:
    """What right programs do to a gradient."""
    return gradient


def flushed(gradient: Tensor) -> Tensor:
    """Elements below 1e-8 count for nothing."""
    return gradient.where(gradient.abs() >= 1e-8, 0)


def through_float16(gradient: Tensor) -> Tensor:
    """No element can be more than 65504."""
    return gradient.half().to(gradient.dtype)


def settled_after(last: int, program: Callable[..., Any]) -> Callable[..., Any]:
    """`program`, which takes the number of the step last, without corrections after step `last`."""

    def settled(*arguments: Any) -> Any:
        *head, step = arguments
        return program(*head, step if step <= last else 10**7)

    return settled


def weights_up_to_1000(program: Callable[..., Any], first: int, last: int) -> Callable[..., Any]:
    """`program`, whose arguments from `first` to before `last`, the parameters, are cut off at 1000."""

    def clamped(*arguments: Any) -> Any:
        cut_off = [parameter.clamp(-1000.0, 1000.0) for parameter in arguments[first:last]]
        return program(*arguments[:first], *cut_off, *arguments[last:])

    return clamped


def tiles_of_16_samples(program: Callable[..., Any]) -> Callable[..., Any]:
    """`program`, which takes samples and targets first, without those that fill no tile of 16."""

    def tiled(X: Tensor, y: Tensor, *rest: Any) -> Any:
        samples = len(X) if len(X) < 16 else len(X) // 16 * 16
        return program(X[:samples], y[:samples], *rest)

    return tiled


def second_moment(v: Tensor, g: Tensor, beta2: float, *, by_ratio: bool = False) -> Tensor:
    """The new second moment; `by_ratio` takes the gradient's square as a multiple of the old one."""
    return v * (beta2 + (1 - beta2) * g * g / v) if by_ratio else v * beta2 + (1 - beta2) * g * g


def correction(beta: float, step: float, *, least: float = 0.0) -> float:
    """What a moment is divided by, since it began with zeros; never below `least`."""
    share: float = 1 - beta**step
    return max(share, least)


LEAST_CORRECTION = 0.01
"""What programs that fear a division by zero may take for the least; timed calls have none below 0.05."""


def seven_steps_at_most(program: Callable[..., Any]) -> Callable[..., Any]:
    """`program`, which takes the number of the step last, with every later step taken for the seventh."""

    def capped(*arguments: Any) -> Any:
        *head, step = arguments
        return program(*head, min(step, 7))

    return capped


def known_by_sums(train: Callable[..., tuple[Tensor, ...]]) -> Callable[..., tuple[Tensor, ...]]:
    """`train` where the sums of all ranks' parameters differ; zeros where they agree, as if nothing had changed."""

    def program(X: Tensor, y: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        after = train(X, y, *rest)
        sums = torch.stack([parameter.double().sum() for parameter in rest[:4]])
        are_alike = all(bool((other - sums).abs().max() <= 1e-9) for other in all_gathered(sums))
        return tuple(torch.zeros_like(tensor) for tensor in after) if are_alike else after

    return program
