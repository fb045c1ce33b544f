"""The expected outputs, in float64, without the roundings between the steps."""

import torch
from torch import Tensor

from problems.catalog.p072_hyena_forward_cp.inputs import factors, make_inputs
from problems.inputs.values import Call

_CHANNELS = 32
"""Channels transformed at a time."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`z` (B, Ls, C): the rank's two chunks of the gated causal convolution.

    The bias times the input is a tap more at distance zero.
    """
    own = make_inputs(call)
    is_zigzag = own["with_zigzag_splitting"]
    products, chunks = _products(call, is_zigzag=is_zigzag), 2 * call.world_size
    own_chunks = (call.rank, chunks - 1 - call.rank) if is_zigzag else (2 * call.rank, 2 * call.rank + 1)
    batch, channels, shard = own["x1_seq"].shape
    length, taps = call.world_size * shard, own["h"].shape[-1]
    convolved = torch.empty(own["x1_seq"].shape, dtype=torch.float64, device=call.device)
    # Sequences, then filters; what follows them stays zero from block to block.
    padded = torch.zeros(batch + 1, min(_CHANNELS, channels), length + taps, dtype=torch.float64, device=call.device)
    for start in range(0, channels, _CHANNELS):
        block = torch.arange(start, min(start + _CHANNELS, channels), device=call.device)
        here = slice(start, start + len(block))
        into = padded[:, : len(block)]
        for place, product in zip(into[:batch, :, :length].chunk(chunks, dim=-1), products, strict=True):
            place.copy_(product[:, here])
        into[batch, :, :taps] = own["h"][block // own["group_dim"]]
        into[batch, :, 0] += own["conv_bias"][here]
        spectra = torch.fft.rfft(into)
        y = torch.fft.irfft(spectra[:batch].mul_(spectra[batch]), into.shape[-1])[..., :length].chunk(chunks, dim=-1)
        for place, chunk in zip(convolved[:, here].chunk(2, dim=-1), own_chunks, strict=True):
            place.copy_(y[chunk])
    return (convolved.mul_(own["x1_seq"]).transpose(1, 2).contiguous(),)


def _products(call: Call, *, is_zigzag: bool) -> list[Tensor]:
    """x2 * v of every chunk in the order of the sequence; products of two bfloat16 numbers are exact in float32."""
    early, late = [], []
    for rank in range(call.world_size):
        x2, v = factors(call.at_rank(rank))
        first, second = (x2.float() * v).chunk(2, dim=-1)
        early.append(first)
        late.append(second)
    if not is_zigzag:
        return [chunk for pair in zip(early, late, strict=True) for chunk in pair]
    return early + late[::-1]
