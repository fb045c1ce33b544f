"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.inputs.regime_values import in_regime, is_exact
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`X_hat` (M, N), normalised rows, and `dY` (M, N), gradients whose columns differ widely in scale.

    The columns' scales are shared, as the outlier channels of a model are: the sums keep them, and a vector of sums
    has elements that one 8-bit scale cannot hold.
    """
    rows = call.normal("X_hat", ("M", "N"), dtype=torch.float32)
    rows.sub_(rows.mean(dim=1, keepdim=True)).div_(rows.std(dim=1, correction=0, keepdim=True))
    scale = call.uniform("scale", (1, 1), low=-1, high=1, dtype=torch.float32).exp2_()
    gradients = call.normal("dY", ("M", "N"), dtype=torch.float32)
    gradients.mul_(call.scales("columns", (1, "N"), spread=0.9, shared=True) * scale)
    if is_exact(call):
        return {"X_hat": rows.sign().to(call.dtype), "dY": _one_row(call, gradients.to(call.dtype))}
    return {"X_hat": rows.to(call.dtype), "dY": in_regime(call, "dY", gradients.to(call.dtype))}


def _one_row(call: Call, gradients: Tensor) -> Tensor:
    """`gradients` (M, N) with zeros in every row but one, which the regime draws."""
    row = int(call.integers("regime's row", (), low=0, high=len(gradients)))
    alone = torch.zeros_like(gradients)
    alone[row] = in_regime(call, "dY", gradients[row])
    return alone
