"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """The rank's shards of the three streams (B, C, Ls), the filters and biases of all channels, and the layout."""
    x2, v = factors(call)
    return {
        "x1_seq": call.long_tailed("x1_seq", ("B", "C", "Ls")),
        "x2_seq": x2,
        "v_seq": v,
        "h": _filters(call),
        "conv_bias": call.normal("conv_bias", ("C",), shared=True),
        "num_groups": call.dims["G"],
        "group_dim": call.dims["D"],
        "group": None,
        "with_zigzag_splitting": True,
    }


def factors(call: Call) -> tuple[Tensor, Tensor]:
    """`x2_seq` and `v_seq` (B, C, Ls), whose product is convolved."""
    return call.normal("x2_seq", ("B", "C", "Ls")), call.long_tailed("v_seq", ("B", "C", "Ls"))


def _filters(call: Call) -> Tensor:
    """`h` (G, Lf): noise under an exponential, each row of about unit energy.

    Time constants lie between Lf/16 and 2 Lf, another one for every group, so that neither a short window nor one
    filter for all will do.
    """
    length = call.dims["Lf"]
    exponent = call.uniform("time constants", ("G", 1), low=-4, high=1, dtype=torch.float32, shared=True)
    decay = -1 / (exponent.exp2_() * length)
    energy = torch.expm1(2 * decay * length) / torch.expm1(2 * decay)
    taps = torch.arange(length, dtype=torch.float32, device=call.device)
    # At `large` this is half a billion taps for every call: as few passes as there can be.
    window = torch.addcmul(energy.log().div_(-2), decay, taps).exp_()
    noise = call.normal("h", ("G", "Lf"), dtype=torch.float32, shared=True)
    return torch.mul(noise, window, out=torch.empty_like(noise, dtype=call.dtype))
