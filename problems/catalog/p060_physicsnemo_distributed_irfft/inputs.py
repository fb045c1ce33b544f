"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.families.fields import sized_by_field, with_zero_field
from problems.inputs.regime_values import in_regime
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`x` (B, C, Hl, K) complex64, the global sizes, the axes, the norm, and no group."""
    rows = slice(call.rank * call.dims["Hl"], (call.rank + 1) * call.dims["Hl"])
    # One field at a time: only a rank's rows of the whole spectrum are kept.
    parts = [torch.fft.rfft2(field, norm="ortho")[..., rows, :].clone() for field in fields(call).unbind()]
    if _is_even(call):
        first = torch.arange(rows.start, rows.stop, device=call.device)[:, None] == 0
        parts = [part * first for part in parts]
    if _is_row_zero(call):
        # Mirrored, these rows are one another, so that the spectrum stays one of real fields.
        parts = [part.index_fill(-2, torch.zeros(1, dtype=torch.long, device=call.device), 0.0) for part in parts]
    return {
        "x": torch.stack(parts),
        "s": (call.dims["H"], call.dims["L"]),
        "dim": call.setting("dim", (-2, -1)),
        "norm": call.setting("norm", "ortho"),
        "group": None,
    }


def fields(call: Call) -> Tensor:
    """The real fields (B, C, H, L) in float32 that the spectrum is of: long-tailed, the same on all ranks."""
    drawn = call.long_tailed("fields", ("B", "C", "H", "L"), dtype=torch.float32, shared=True)
    if _is_even(call):
        drawn = drawn[..., :1, :].expand_as(drawn).contiguous()
    sized = sized_by_field(call, drawn)
    return in_regime(call, "fields", sized if _is_row_zero(call) else with_zero_field(call, sized))


def _is_row_zero(call: Call) -> bool:
    """Whether the first row that each rank holds of a spectrum is zero; a zero row of a field would be all rounding."""
    return bool(call.setting("zero_field", None) == "row")


def _is_even(call: Call) -> bool:
    """Whether all rows of a field are equal, so that only the first of its spectrum is not zero."""
    return bool(call.setting("fields", None) == "even")
