"""Arguments of one rank for one call."""

from collections.abc import Iterator
from math import gamma, pi, sqrt

import torch
from torch import Tensor

from problems.inputs.groups import world
from problems.inputs.regime_values import in_regime, magnitude
from problems.inputs.values import Arguments, Call

TENSORS = 3
LEAST = 2.0**-56
"""Times the least scale and squared it is a number of float32, with room for elements far below their deviation."""


def make_inputs(call: Call) -> Arguments:
    """Three gradients (M, N) with scales of their own, the limit, the kind of norm, and the world group."""
    return {
        "grad_tensors": list(gradients(call)),
        "max_norm": limit(call),
        "norm_type": norm_type(call),
        "fsdp_group": world(call.world_size),
    }


def gradients(call: Call) -> Iterator[Tensor]:
    """The rank's gradients (M, N), each drawn when it is asked for."""
    own = _scales(call)[call.rank].mul(_size(call)).tolist()
    drawn = ((f"grad_tensors{number}", scale) for number, scale in enumerate(own))
    return (
        _with_zeros(call, name, in_regime(call, name, call.normal(name, ("M", "N"), std=scale)))
        for name, scale in drawn
    )


def _with_zeros(call: Call, name: str, gradient: Tensor) -> Tensor:
    """`gradient`; in one regime its first row is zero, as that of a word no token of a batch is, or one is all zero."""
    zero = call.setting("zero", "")
    if zero == "first rows":
        gradient[0] = 0.0
    if zero == "one gradient":
        first = int(call.integers("regime's zero gradient", (), low=0, high=TENSORS, shared=True))
        return torch.zeros_like(gradient) if name == f"grad_tensors{(first + call.rank) % TENSORS}" else gradient
    return gradient


def _size(call: Call) -> float:
    """What all gradients are multiplied by."""
    return LEAST if call.setting("gradients", None) == "least" else 1.0


def norm_type(call: Call) -> float:
    """The p of the norm: 2 in timed calls."""
    return float(call.setting("norm_type", 2.0))


def _scales(call: Call) -> Tensor:
    """The scale of every rank's tensors (W, 3), between 1/8 and 8 (float64)."""
    exponents = call.uniform("scales", (call.world_size, TENSORS), low=-3, high=3, dtype=torch.float64, shared=True)
    return exponents.exp2()


def limit(call: Call) -> float:
    """A secret share, between a tenth and a half, of the norm that the scales let expect: every timed call clips."""
    p, elements = norm_type(call), call.dims["M"] * call.dims["N"]
    likely = float(_scales(call).pow(p).sum().mul(elements * _moment(p)).pow(1 / p)) * magnitude(call) * _size(call)
    share = float(call.uniform("limit", (), low=0.1, high=0.5, dtype=torch.float64, shared=True))
    share = float(call.setting("share", share))
    return likely * share * float(call.setting("more_room", 1.0))


def _moment(p: float) -> float:
    """The mean of |x|^p for standard normal x."""
    return 1.0 if p == 2 else 2 ** (p / 2) * gamma((p + 1) / 2) / sqrt(pi)
