"""What each rank owes, in float64, without the roundings between the steps."""

import torch
from torch import Tensor

from problems.catalog.p072_hyena_forward_cp.inputs import factors, make_inputs
from problems.values import Call

_CHANNELS = 64
"""Channels transformed at a time."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`z` (B, Ls, C): the rank's two chunks of the gated causal convolution."""
    own = make_inputs(call)
    products, world_size = _products(call), call.world_size
    filters = own["h"].repeat_interleave(own["group_dim"], dim=0)
    blocks = []
    for start in range(0, call.dims["C"], _CHANNELS):
        channels = slice(start, start + _CHANNELS)
        u = torch.cat([chunk[:, channels] for chunk in products], dim=-1).double()
        y = _convolve(u, filters[channels].double()) + u * own["conv_bias"][channels, None].double()
        chunks = y.chunk(2 * world_size, dim=-1)
        blocks.append(torch.cat((chunks[call.rank], chunks[-1 - call.rank]), dim=-1))
    return (torch.cat(blocks, dim=1).mul_(own["x1_seq"]).transpose(1, 2).contiguous(),)


def _products(call: Call) -> list[Tensor]:
    """x2 * v of every chunk in the order of the sequence; products of two bfloat16 numbers are exact in float32."""
    early, late = [], []
    for rank in range(call.world_size):
        x2, v = factors(call.at_rank(rank))
        first, second = (x2.float() * v).chunk(2, dim=-1)
        early.append(first)
        late.append(second)
    return early + late[::-1]


def _convolve(u: Tensor, h: Tensor) -> Tensor:
    """The first positions of the plain convolution of `u` (B, C, L) with `h` (C, Lf)."""
    length = u.shape[-1] + h.shape[-1]
    product = torch.fft.rfft(u, length) * torch.fft.rfft(h, length)
    return torch.fft.irfft(product, length)[..., : u.shape[-1]]
