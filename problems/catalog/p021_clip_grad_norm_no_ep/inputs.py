"""Arguments of one rank for one call."""

from collections.abc import Iterator

import torch
from torch import Tensor

from problems.groups import world
from problems.values import Arguments, Call

TENSORS = 3


def make_inputs(call: Call) -> Arguments:
    """Three gradients (M, N) with scales of their own, the limit, the kind of norm, and the world group."""
    return {
        "grad_tensors": list(gradients(call)),
        "max_norm": limit(call),
        "norm_type": 2.0,
        "fsdp_group": world(call.world_size),
    }


def gradients(call: Call) -> Iterator[Tensor]:
    """The rank's gradients (M, N), each drawn when it is asked for."""
    own = _scales(call)[call.rank].tolist()
    return (call.normal(f"grad_tensors{number}", ("M", "N"), std=scale) for number, scale in enumerate(own))


def _scales(call: Call) -> Tensor:
    """The scale of every rank's tensors (W, 3), between 1/8 and 8 (float64)."""
    exponents = call.uniform("scales", (call.world_size, TENSORS), low=-3, high=3, dtype=torch.float64, shared=True)
    return exponents.exp2()


def limit(call: Call) -> float:
    """A secret share, between a tenth and a half, of the norm that the scales let expect: every call clips."""
    elements = call.dims["M"] * call.dims["N"]
    likely = float(_scales(call).square().sum().mul(elements).sqrt())
    return likely * float(call.uniform("limit", (), low=0.1, high=0.5, dtype=torch.float64, shared=True))
