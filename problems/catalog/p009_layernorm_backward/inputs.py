"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.inputs.regime_values import at_end, in_regime, is_exact
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`X_hat` (M, N), normalised rows, and `dY` (M, N), gradients whose columns differ widely in scale.

    The columns' scales are shared, as the outlier channels of a model are: the sums keep them, and a vector of sums
    has elements that one 8-bit scale cannot hold.
    """
    rows = _uneven(call, call.normal("X_hat", ("M", "N"), dtype=torch.float32))
    # Rows of equal elements stay zero, as the epsilon of a layer norm leaves them.
    rows.sub_(rows.mean(dim=1, keepdim=True)).div_(rows.std(dim=1, correction=0, keepdim=True).clamp_(min=1e-30))
    if _is_uneven(call):
        rows[:, 0] = 0.0
    scale = call.uniform("scale", (1, 1), low=-1, high=1, dtype=torch.float32).exp2_()
    gradients = call.normal("dY", ("M", "N"), dtype=torch.float32)
    gradients.mul_(call.scales("columns", (1, "N"), spread=0.9, shared=True) * scale)
    if _is_uneven(call):
        begins = call.uniform("regime's beginnings", ("M", 1), dtype=torch.float32) < 1 / 3
        gradients[:, :16].masked_fill_(begins, 0.0)
    if call.setting("rows", "") == "steep" and not bool((has_values := rows.any(dim=1, keepdim=True)).all()):
        # Then d_beta is so much larger than d_gamma that float16 holds neither on a scale of both.
        gradients *= torch.where(has_values, 2.0**-20, 1.0)
    if call.setting("rows", "") == "growing":
        gradients[-32:] *= 64
    if is_exact(call):
        return {"X_hat": rows.sign().to(call.dtype), "dY": _one_row(call, gradients.to(call.dtype))}
    return {"X_hat": rows.to(call.dtype), "dY": at_end(call, in_regime(call, "dY", gradients.to(call.dtype)))}


def _uneven(call: Call, rows: Tensor) -> Tensor:
    """`rows` (M, N); where a regime has them uneven, a third are zero and the others have one large element each.

    It is never the first one, which is set to zero afterwards.
    """
    if not _is_uneven(call):
        return rows
    # Columns of the rank's own: what is large on two ranks may cancel, and an honest sum in bfloat16 has nothing left.
    last, ranks = call.dims["N"] - 1, call.world_size
    place = call.integers("regime's largest elements", ("M", 1), low=0, high=max(1, last // ranks))
    place = (place * ranks + call.rank).clamp_(max=last - 1) + 1
    rows.scatter_(1, place, call.normal("regime's sizes", ("M", 1), std=1000.0, dtype=torch.float32))
    # The first two are zero for certain, where there are others.
    rows[: min(2, len(rows) - 1)] = 0.0
    return rows.masked_fill_(call.uniform("regime's zero rows", ("M", 1), dtype=torch.float32) < 1 / 3, 0.0)


def _is_uneven(call: Call) -> bool:
    return bool(call.setting("rows", "") in ("uneven", "steep"))


def _one_row(call: Call, gradients: Tensor) -> Tensor:
    """`gradients` (M, N) with zeros in every row but one, which the regime draws."""
    row = int(call.integers("regime's row", (), low=0, high=len(gradients)))
    alone = torch.zeros_like(gradients)
    alone[row] = in_regime(call, "dY", gradients[row])
    return alone
