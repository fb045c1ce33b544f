"""Exact outputs in 8-bit floats, which torch can neither compare nor subtract.

`problems.outputs.comparison` is in every problem's revision, so what it cannot take is made ready here.
"""

from torch import Tensor

from problems.specification.schema import Output


def comparable(output: Output, actual: Tensor, expected: Tensor) -> tuple[Tensor, Tensor]:
    """`actual` and `expected` as `compare_output` takes them.

    Exact outputs in 8-bit floats become float32, which holds each of their values; what is expected is rounded to 8
    bits before. Anything else stays as it is.
    """
    is_narrow = actual.is_floating_point() and actual.element_size() == 1
    if not (is_narrow and output.tolerance.is_exact):
        return actual, expected
    return actual.float(), expected.to(actual.dtype).float()
