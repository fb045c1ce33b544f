"""Arguments of one rank for one call."""

import torch

from problems.inputs.regime_values import in_regime
from problems.inputs.values import Arguments, Call

CHOICES = ("quintic_5", "simple_5", "aol_4")
"""Types and steps that stop well before convergence, so that norm and every step show; polar_express does not."""


def make_inputs(call: Call) -> Arguments:
    """`x` (rows, cl) bfloat16, the rank's part of one matrix, the options of this call, and no group.

    Parts differ in scale between ranks, from 1/2 to 2: the norm is of the whole matrix. Where the size fixes
    no option (tiny), the coefficients are drawn for every call.
    """
    place = int(call.permutation("scale", call.world_size, shared=True)[call.rank])
    scale = 2 ** (2 * place / (call.world_size - 1) - 1)
    choice = 0 if call.dims["is_quintic"] else int(call.integers("choice", (1,), low=0, high=len(CHOICES), shared=True))
    coefficient_type, steps = str(call.setting("choice", CHOICES[choice])).rsplit("_", 1)
    x, dim = call.normal("x", ("rows", "cl"), dtype=torch.float32), call.dims["partition_dim"]
    dim = 1 - dim if call.setting("is_turned", False) else dim
    if (times := call.setting("one_direction", 0.0)) > 0:
        # Of the vectors whose product it is, all ranks have the one along the dimension that is not cut.
        column = call.normal("direction's column", ("rows", 1), dtype=torch.float32, shared=dim == 1)
        x += times * column * call.normal("direction's row", (1, "cl"), dtype=torch.float32, shared=dim == 0)
    if (norm := call.setting("norm", None)) is not None:
        scale *= norm / (x.numel() * call.world_size) ** 0.5
    return {
        "x": in_regime(call, "x", x.mul_(scale * call.setting("scale", 1.0)).to(torch.bfloat16)),
        "steps": int(steps),
        "coefficient_type": coefficient_type,
        "partition_dim": dim,
        "group": None,
    }
