"""The published rule: outputs are right where `torch.allclose` says so of them and the reference's.

Source: fidelity to the published harness as of June 2026, atol = rtol = 1e-2 on inputs in bfloat16. It has one bound
for every problem, on single elements. Ours follow each output's own rounding (`problems.outputs.comparison`).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from evaluator.arena.structure import Area
from evaluator.oracle.traces import read_output

TOLERANCE = 1e-2
"""Absolute and relative."""

_CHUNK_ELEMENTS = 1 << 24


def outputs_of(header: Sequence[dict[str, Any]], area: Area, *, device: torch.device) -> list[Tensor | str]:
    """What a rank returned: tensors, and in words what is none or had no room."""
    return [_output(entry, area, device=device) for entry in header]


def _output(entry: dict[str, Any], area: Area, *, device: torch.device) -> Tensor | str:
    if "other" in entry:
        return f"a {entry['other']}"
    if entry["start"] < 0:
        return f"{entry['dtype']}{entry['shape']}"
    return read_output(entry, area, device=device)


def difference(ours: Sequence[Tensor | str], references: Sequence[Tensor | str], *, names: Sequence[str]) -> str:
    """How the first wrong output differs from the reference's; "" where none does. NaN is close to nothing."""
    if len(ours) != len(references):
        return f"{len(ours)} output(s), the reference has {len(references)}"
    for name, mine, right in zip(names, ours, references, strict=False):
        if isinstance(mine, str) or isinstance(right, str) or (mine.shape, mine.dtype) != (right.shape, right.dtype):
            return f"output {name!r} is {_form(mine)}, the reference's {_form(right)}"
        if far := _far(mine, right):
            return f"{far} of {mine.numel()} elements of output {name!r} are further from the reference than 0.01"
    return ""


def _form(value: Tensor | str) -> str:
    return value if isinstance(value, str) else f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


def _far(mine: Tensor, right: Tensor) -> int:
    """How many elements `torch.isclose` refuses, in chunks, as it widens each of them."""
    wide = torch.complex128 if mine.is_complex() else torch.float64
    flat, other = mine.reshape(-1), right.reshape(-1)
    found = 0
    for start in range(0, flat.numel(), _CHUNK_ELEMENTS):
        left, wanted = (each[start : start + _CHUNK_ELEMENTS].to(wide) for each in (flat, other))
        found += int((~torch.isclose(left, wanted, rtol=TOLERANCE, atol=TOLERANCE)).sum())
    return found
