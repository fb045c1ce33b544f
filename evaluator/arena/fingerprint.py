"""A number that shows whether tensors changed. The same code in sandbox and oracle ranks.

It is not a secure hash: a rank can forge it. It shows changes between a call's return and the moment when the judge
takes the outputs.
"""

from collections.abc import Sequence
from typing import Any

import torch

_KINDS = frozenset(
    {
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64,
        torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
        torch.float8_e4m3fn, torch.float8_e5m2,
    }
)  # fmt: skip
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

# Kept from before a submission is imported, which may replace methods of the class or of an instance.
_detach, _resolve_conj, _resolve_neg = torch.Tensor.detach, torch.Tensor.resolve_conj, torch.Tensor.resolve_neg
_view, _sum, _view_as_real, _ne = torch.Tensor.view, torch.sum, torch.view_as_real, torch.ne


def is_plain_tensor(value: Any) -> bool:
    """Whether `value` is a tensor with storage of its own; a lazy subclass is not."""
    return type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout == torch.strided


def fingerprint(values: Sequence[Any]) -> int:
    """The fingerprint of every plain tensor among `values` as a signed 64-bit number."""
    total = sum(int(_bits(value, index).item()) for index, value in enumerate(values) if _is_known(value))
    total &= 2**64 - 1
    return total - 2**64 if total >= 2**63 else total


def _is_known(value: Any) -> bool:
    return is_plain_tensor(value) and value.dtype in _KINDS and value.device.type in ("cpu", "cuda")


def _bits(tensor: torch.Tensor, index: int) -> torch.Tensor:
    """The sum of a tensor's elements read as integers, whatever its strides; the index distinguishes outputs."""
    plain = _resolve_neg(_resolve_conj(_detach(tensor)))
    if plain.dtype is torch.bool:
        # Any byte but 0 is true, and a copy may make 1 of it.
        return _sum(_ne(_view(plain, torch.uint8), 0), dtype=torch.int64) * (2 * index + 1)
    if plain.is_complex():
        plain = _view_as_real(plain)
    return _sum(_view(plain, _BITS[plain.element_size()]), dtype=torch.int64) * (2 * index + 1)
