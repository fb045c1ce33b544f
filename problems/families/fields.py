"""Batches of fields for transforms, as regimes have them."""

import torch
from torch import Tensor

from problems.inputs.values import Call

_EXPONENT = 75
"""Fields are at most as many powers of two larger or smaller than in usual calls: their ratio is no float32 number."""


def sized_by_field(call: Call, fields: Tensor) -> Tensor:
    """`fields` (..., H, L); in a regime each is another power of two times what it was, the same on all ranks.

    In another every second one is so many times smaller.
    """
    if call.setting("sizes", None) == "two":
        fields = fields.clone()
        fields.flatten(0, -3)[1::2] /= call.setting("smaller", 1.0)
        return fields
    if call.setting("sizes", None) != "by_field":
        return fields
    batch = fields.shape[:-2]
    count = batch.numel()
    places = call.permutation("regime's sizes of fields", count, shared=True)
    exponents = (_EXPONENT * (2 * places / max(1, count - 1) - 1)).round()
    return fields * exponents.exp2().view(*batch, 1, 1).to(fields.dtype)


def with_zero_field(call: Call, fields: Tensor) -> Tensor:
    """`fields` (..., H, L); in a regime the first of several, or the last, is zero, or the first row of each."""
    if call.setting("zero_field", None) == "row":
        return fields.index_fill(-2, torch.zeros(1, dtype=torch.long, device=fields.device), 0.0)
    place = {"first": 0, "last": -1}.get(call.setting("zero_field", ""))
    if place is None or fields.shape[:-2].numel() == 1:
        return fields
    fields = fields.clone()
    fields.flatten(0, -3)[place] = 0.0
    return fields


def one_step_for_all(tensor: Tensor) -> Tensor:
    """`tensor` in steps of a billionth of its largest number, as a wrong program may send it."""
    parts = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    step = parts.abs().max().double().clamp(min=1e-300) / 2**30
    rounded = ((parts.double() / step).round() * step).to(parts.dtype)
    return torch.view_as_complex(rounded) if tensor.is_complex() else rounded
