"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.families.one_rank import in_regime_of_ranks
from problems.inputs.copying import copies, odd_values, picking
from problems.inputs.regime_values import LARGEST
from problems.inputs.values import Arguments, Call

PLATEAU = 6e-4
"""The size of the low taps of a filter whose first tap is 1, below 2^-10: they are half as high again at the most."""


def make_inputs(call: Call) -> Arguments:
    """The rank's shards of the three streams (B, C, Ls), the filters and biases of all channels, and the layout."""
    x2, v = factors(call)
    return {
        "x1_seq": _gate(call, "x1_seq", long_tailed=True),
        "x2_seq": x2,
        "v_seq": v,
        "h": _filters(call),
        "conv_bias": _biases(call),
        "num_groups": _groups(call),
        "group_dim": _channels_per_filter(call),
        "group": None,
        "with_zigzag_splitting": call.setting("zigzag", usual=True),
    }


def factors(call: Call) -> tuple[Tensor, Tensor]:
    """`x2_seq` and `v_seq` (B, C, Ls), whose product is convolved."""
    gate = _gate(call, "x2_seq")
    if call.setting("first_gate", "usual") == "zero":
        gate[:, 0] = 0
    if copies(call):
        return gate, odd_values(call, "v_seq", ("B", "C", "Ls"))
    v = call.long_tailed("v_seq", ("B", "C", "Ls"))
    if _has_plateau(call):
        gate, v = gate.abs_(), v.abs_()
    return gate, in_regime_of_ranks(call, "v_seq", v)


def _has_plateau(call: Call) -> bool:
    """Whether filters are a large tap and many low ones of one sign, which count because the streams have a mean."""
    return bool(call.setting("filters", None) == "plateau")


def _gate(call: Call, name: str, *, long_tailed: bool = False) -> Tensor:
    """A stream (B, C, Ls) that multiplies another."""
    if copies(call):
        return _signs(call, name)
    gate = (call.long_tailed if long_tailed else call.normal)(name, ("B", "C", "Ls"))
    return gate.mul_(LARGEST) if _are_gates_huge(call) else gate


def _are_gates_huge(call: Call) -> bool:
    """Whether both gates are large in this call, and filters and biases as much smaller."""
    return bool(call.setting("gates", None) == "huge")


def _beside_gates(call: Call, tensor: Tensor) -> Tensor:
    """Filters or biases."""
    return tensor.div_(LARGEST) if _are_gates_huge(call) else tensor


def _signs(call: Call, name: str) -> Tensor:
    """A stream of 1 and -1."""
    return 2 * call.integers(name, ("B", "C", "Ls"), low=0, high=2).to(call.dtype) - 1


def _groups(call: Call) -> int:
    """How many filters there are."""
    return call.dims["C"] // _channels_per_filter(call)


def _channels_per_filter(call: Call) -> int:
    return int(call.setting("group_dim", call.dims["D"]))


def _biases(call: Call) -> Tensor:
    """The biases (C,) of all channels; in one regime every other one may be zero."""
    biases = _beside_gates(call, call.normal("conv_bias", ("C",), std=0.0 if copies(call) else 1.0, shared=True))
    if call.setting("biases", "usual") == "half_zero":
        biases[::2] = 0
    return biases


def _filters(call: Call) -> Tensor:
    """`h` (G, Lf): noise under an exponential, each row of about unit energy.

    Time constants lie between Lf/16 and 2 Lf, another one for every group, so that neither a short window nor one
    filter for all will do.
    """
    is_whole = call.setting("taps", None) == "all"
    length, groups = call.world_size * call.dims["Ls"] if is_whole else call.dims["Lf"], _groups(call)
    if copies(call):
        picked = picking(call, "h", (groups, length), shared=True)
        # Some result on every rank: what a transform rounds stands beside exact zeros otherwise.
        near = call.integers("near tap", (1,), low=0, high=min(length, call.dims["Ls"] // 2), shared=True)
        picked[0] = 0.0
        picked[0, near] = 1.0
        return picked
    if _has_plateau(call):
        sign = 2.0 * call.integers("plateau sign", (groups, 1), low=0, high=2, shared=True) - 1
        least = call.setting("plateau", PLATEAU)
        low = call.uniform("plateau", (groups, length), low=least, high=1.5 * least, shared=True) * sign
        low[:, 0] = 1.0
        return _beside_gates(call, low.to(call.dtype))
    exponent = call.uniform("time constants", (groups, 1), low=-4, high=1, dtype=torch.float32, shared=True)
    decay = -1 / (exponent.exp2_() * length)
    energy = torch.expm1(2 * decay * length) / torch.expm1(2 * decay)
    taps = torch.arange(length, dtype=torch.float32, device=call.device)
    # At `large` this is half a billion taps for every call: as few passes as there can be.
    window = torch.addcmul(energy.log().div_(-2), decay, taps).exp_()
    noise = call.normal("h", (groups, length), dtype=torch.float32, shared=True)
    return _beside_gates(call, torch.mul(noise, window, out=torch.empty_like(noise, dtype=call.dtype)))
