"""What a call of a problem holds on one rank, by the spec alone: no torch, no rank, no value drawn."""

from problems.spec.schema import ArgumentKind, Dims, Problem

ITEM_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "uint32": 4, "float32": 4,
    "int64": 8, "uint64": 8, "float64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip
"""Bytes of an element by the name of its dtype, for code that has no torch."""
_RUN = "bfloat16"


def held_bytes(problem: Problem, dims: Dims) -> int:
    """Bytes of the tensor arguments and the returned outputs; nothing for lengths that the data of a call decide."""
    held = sum(_bytes(output.shape, output.dtype, dims) for output in problem.outputs if output.argument is None)
    for argument in problem.arguments:
        if argument.kind is ArgumentKind.TENSOR:
            held += _bytes(argument.shape, argument.dtype, dims)
        elif argument.kind is ArgumentKind.TENSORS:
            count = 1 if argument.count is None else argument.count
            held += _bytes((count, *argument.shape), argument.dtype, dims)
    return held


def _bytes(shape: tuple[str | int, ...], dtype: str, dims: Dims) -> int:
    elements = 1
    for symbol in shape:
        elements *= dims.get(symbol, 0) if isinstance(symbol, str) else symbol
    return elements * ITEM_BYTES[_RUN if dtype == "input" else dtype]
