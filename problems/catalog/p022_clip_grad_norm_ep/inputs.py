"""Arguments of one rank for one call."""

from collections.abc import Iterator
from math import gamma, pi, sqrt

import torch
from torch import Tensor

from problems.inputs.groups import contiguous, strided, world
from problems.inputs.regime_values import in_regime, magnitude
from problems.inputs.values import Arguments, Call

LEAST = 2.0**-56
"""Times the least scale and squared it is a number of float32, with room for elements far below their deviation."""


def make_inputs(call: Call) -> Arguments:
    """One ordinary and one expert gradient (M, N) with scales of their own, the limit, and three groups.

    The expert gradients are larger, as sums over all the tokens of several ranks are.
    """
    ordinary, expert = gradients(call)
    rank, world_size, ep_size = call.rank, call.world_size, call.dims["ep_size"]
    has_groups = ep_size > 1 and world_size % ep_size == 0
    replicas = world_size // ep_size
    return {
        "non_ep_grad_tensors": [ordinary],
        "ep_grad_tensors": [expert],
        "max_norm": limit(call),
        "norm_type": norm_type(call),
        "ep_size": ep_size,
        "fsdp_group": world(world_size),
        "ep_fsdp_group": strided(rank, world_size=world_size, group_size=replicas) if has_groups else world(world_size),
        "ep_group": contiguous(rank, world_size=world_size, group_size=ep_size) if has_groups else None,
    }


def gradients(call: Call) -> Iterator[Tensor]:
    """The rank's ordinary and its expert gradient (M, N), each drawn when it is asked for."""
    scales = _scales(call)[call.rank].mul(_size(call)).tolist()
    drawn = zip(("non_ep", "ep"), scales, strict=True)
    return (_values(call, name, call.normal(name, ("M", "N"), std=scale)) for name, scale in drawn)


def _values(call: Call, name: str, gradient: Tensor) -> Tensor:
    """`gradient` as the call's regime has it; one of zeros may leave one of the two as usual."""
    return in_regime(call, name, gradient) if call.setting("zero", "both") in ("both", name) else gradient


def _size(call: Call) -> float:
    """What all gradients are multiplied by."""
    return LEAST if call.setting("gradients", None) == "least" else 1.0


def norm_type(call: Call) -> float:
    """The p of the norm: 2 in timed calls."""
    return float(call.setting("norm_type", 2.0))


def _scales(call: Call) -> Tensor:
    """The scales of every rank's two gradients (W, 2): 1/4 to 4, and the same times `ep_size` (float64)."""
    exponents = call.uniform("scales", (call.world_size, 2), low=-2, high=2, dtype=torch.float64, shared=True)
    scales = exponents.exp2()
    scales[:, 1] *= call.dims["ep_size"]
    return scales


def limit(call: Call) -> float:
    """A secret share, between a tenth and a half, of the norm that the scales let expect: every timed call clips."""
    p, elements, scales = norm_type(call), call.dims["M"] * call.dims["N"], _scales(call)
    scales[:, 1] /= call.dims["ep_size"]
    likely = float(scales.pow(p).sum().mul(elements * _moment(p)).pow(1 / p)) * magnitude(call) * _size(call)
    share = float(call.uniform("limit", (), low=0.1, high=0.5, dtype=torch.float64, shared=True))
    share = float(call.setting("share", share))
    return likely * share * float(call.setting("more_room", 1.0))


def _moment(p: float) -> float:
    """The mean of |x|^p for standard normal x."""
    return 1.0 if p == 2 else 2 ** (p / 2) * gamma((p + 1) / 2) / sqrt(pi)
