"""Comparing copies by their bits: zeros count with their sign, which a comparison by value does not see."""

from dataclasses import replace

import torch
from torch import Tensor

from problems.outputs.comparison import Comparison, compare_output
from problems.spec.schema import Output

_CHUNK_ELEMENTS = 1 << 22


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
