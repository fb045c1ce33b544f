"""Comparing copies by their bits: zeros count with their sign, which a comparison by value does not see."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from problems.inputs.values import Call
from problems.outputs.comparison import Comparison, compare_output
from problems.spec.schema import Output, Problem

_CHUNK_ELEMENTS = 1 << 22


Tensors = tuple[Tensor, ...]


def comparing_bits(problem: Problem) -> Callable[[Call, Tensors, Tensors], tuple[Comparison, ...]]:
    """An oracle's `compare` for a problem whose outputs are copies."""

    def compare(_call: Call, actual: Tensors, expected: Tensors) -> tuple[Comparison, ...]:
        return tuple(map(compare_copy, problem.outputs, actual, expected))

    return compare


def compare_copy(output: Output, actual: Tensor, expected: Tensor) -> Comparison:
    """As `compare_output` for an exact output, but a zero of the other sign is wrong; one NaN is as good as another."""
    found = compare_output(output, actual, expected)
    pairs = zip(actual.flatten().split(_CHUNK_ELEMENTS), expected.flatten().split(_CHUNK_ELEMENTS), strict=True)
    counts = [((left == 0) & (left.signbit() != right.signbit())).sum() for left, right in pairs if found.passed]
    turned = int(torch.stack(counts).sum()) if counts else 0
    if not turned:
        return found
    remark = f"{turned} of {found.elements} elements that are zeros of the other sign: copies are compared bit by bit"
    return replace(found, passed=False, wrong_elements=turned, remark=remark)
