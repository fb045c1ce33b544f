"""Arguments of one rank for one call."""

import torch

from problems.inputs.regime_values import in_regime
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`local_y` (W, M, N), `local_s` (W, NB) of either sign and very different magnitude, `block_size`."""
    magnitude = call.uniform("magnitude", ("W", "NB"), low=-5, high=5, dtype=torch.float32).exp2_()
    scales = call.normal("local_s", ("W", "NB"), dtype=torch.float32).mul_(magnitude)
    if call.setting("scales", None) == "spread":
        scales.mul_(call.integers("regime's magnitude", ("W", "NB"), low=-66, high=67).float().exp2_())
        scales.mul_(call.uniform("regime's zeros", ("W", "NB"), dtype=torch.float32) >= 1 / 4)
    if call.setting("end_scales", "usual") == "one":
        scales[:, [0, -1]] = 1.0
    values = in_regime(call, "local_y", call.normal("local_y", ("W", "M", "N")))
    if call.setting("beginnings", "usual") == "zero":
        values.view(*call.shape(("W", "NB", "block_size")))[:, ::2, :8] = 0.0
    return {
        "local_y": values,
        "local_s": scales.to(call.dtype),
        "block_size": call.dims["block_size"],
    }
