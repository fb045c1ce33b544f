"""Pieces of attention for variants that must fail."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

Program = Callable[..., Any]


def none_for_an_odd_one_out(program: Program) -> Program:
    """`program`, which takes positions two by two: the last one of an odd number gets nothing."""

    def in_pairs(*arguments: Any) -> Any:
        out = program(*arguments)
        for part in (out,) if isinstance(out, Tensor) else out:
            part[:, part.shape[1] // 2 * 2 :] = 0
        return out

    return in_pairs


def softmax_from_zero(scores: Tensor) -> Tensor:
    """The softmax of `scores` by key, with a maximum that starts at zero: no numbers where all are far below it."""
    weights = (scores - scores.amax(dim=-1, keepdim=True).clamp(min=0.0)).exp()
    return weights / weights.sum(dim=-1, keepdim=True)
