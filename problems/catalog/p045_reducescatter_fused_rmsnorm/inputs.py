"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.inputs.regime_values import LARGEST, in_regime
from problems.inputs.values import Arguments, Call

EPSILON = 1e-5


def make_inputs(call: Call) -> Arguments:
    """`rs_input_1d` (W * chunk,), `gamma` (hidden,), equal on all ranks, and `eps`.

    A norm does not see the scale of its input unless the mean square is near epsilon. Rows from far below to far above
    its root make the epsilon count, and with it the division by the world size.
    """
    hidden = call.dims["hidden"]
    rows = call.dims["elements"] // hidden
    row = call.uniform("row_scale", (rows, 1), low=-11, high=3, dtype=torch.float32, shared=True)
    own = call.uniform("own_scale", (1, 1), low=-1, high=1, dtype=torch.float32)
    values = call.long_tailed("rs_input_1d", (rows, hidden), dtype=torch.float32)
    values = values.mul_((row + own).exp2_()).to(call.dtype).view(-1)
    return {
        "rs_input_1d": _with_zero_rows(call, in_regime(call, "rs_input_1d", values)),
        "gamma": call.normal("gamma", ("hidden",), shared=True).mul_(
            LARGEST if call.setting("gamma", None) == "huge" else 1.0
        ),
        "eps": call.setting("epsilon", EPSILON),
    }


def _with_zero_rows(call: Call, values: Tensor) -> Tensor:
    """`values`; in a regime the first row of each rank's chunk and every third row of all are zero."""
    if call.setting("rows", None) == "zero":
        rows = values.view(call.world_size, -1, call.dims["hidden"])
        rows[:, 0] = 0
        rows.flatten(0, 1)[::3] = 0
    return values
