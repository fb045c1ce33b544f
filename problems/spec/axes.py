"""Axes that several problems share: message size, and rows."""

from functools import partial

from problems.spec.schema import Axis, Dims, SizeName

_KIB, _MIB = 1024, 1024**2
_ELEMENT_BYTES = 2
"""Of bfloat16, in which sweeps are."""


def message_size(*, has_parts: bool) -> Axis:
    """Bytes of a collective's message as nccl-tests counts them.

    With `has_parts` the message is all ranks' matrices together: what every rank has after an all-gather, or before an
    all-to-all. Otherwise it is the one matrix (M, N) of a rank.
    """
    return Axis(
        name="message size",
        symbol="bytes",
        unit="bytes",
        values={
            SizeName.TINY: (4 * _KIB, 16 * _KIB, 64 * _KIB, 256 * _KIB, _MIB),
            SizeName.BASE: tuple(16 * _KIB * 4**power for power in range(9)),
        },
        fixed="rows of 1024 elements (of 64 on CPU ranks), in bfloat16"
        + ("; the matrices of all ranks count" if has_parts else ""),
        dims=partial(_message, has_parts=has_parts),
    )


def _message(_axis: Axis, dims: Dims, value: int, world_size: int, *, has_parts: bool) -> Dims:
    columns = 1024 if dims["N"] >= 1024 else 64
    rows = value // (columns * _ELEMENT_BYTES * (world_size if has_parts else 1))
    return {**dims, "N": columns, "M": rows, **({"WM": world_size * rows} if "WM" in dims else {})}


def rows(fixed: str, *, symbol: str = "M", split: str = "") -> Axis:
    """Rows of a matrix product; `split` is the dimension that holds a rank's share of them."""
    return Axis(
        name="rows",
        symbol=symbol,
        unit="rows",
        values={
            SizeName.TINY: (16, 32, 64, 128, 256),
            SizeName.BASE: (256, 512, 1024, 2048, 4096, 8192, 16_384),
        },
        fixed=fixed,
        dims=partial(_rows, split=split),
    )


def _rows(axis: Axis, dims: Dims, value: int, world_size: int, *, split: str) -> Dims:
    return {**dims, axis.symbol: value, **({split: value // world_size} if split else {})}
