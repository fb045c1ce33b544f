"""Programs that must pass and programs that must fail."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import all_gathered


@dataclass(frozen=True)
class _Layer:
    """The whole sequence on one rank, in float32: streams (B, C, L), filters (C, Lf), bias (C, 1)."""

    x1: Tensor
    u: Tensor
    filters: Tensor
    bias: Tensor


def _sequence(shard: Tensor, *, is_zigzag: bool = True) -> Tensor:
    parts = all_gathered(shard)
    halves = [part.float().chunk(2, dim=-1) for part in parts]
    if not is_zigzag:
        return torch.cat(parts, dim=-1).float()
    return torch.cat([half[0] for half in halves] + [half[1] for half in reversed(halves)], dim=-1)


def _own(z: Tensor, *, is_zigzag: bool = True) -> Tensor:
    chunks = z.chunk(2 * dist.get_world_size(), dim=-1)
    rank = dist.get_rank()
    if not is_zigzag:
        return torch.cat(chunks[2 * rank : 2 * rank + 2], dim=-1).transpose(1, 2).contiguous()
    return torch.cat((chunks[rank], chunks[-1 - rank]), dim=-1).transpose(1, 2).contiguous()


def _by_transform(layer: _Layer) -> Tensor:
    length = layer.u.shape[-1] + layer.filters.shape[-1]
    product = torch.fft.rfft(layer.u, length) * torch.fft.rfft(layer.filters, length)
    return layer.x1 * (torch.fft.irfft(product, length)[..., : layer.u.shape[-1]] + layer.u * layer.bias)


def _direct(layer: _Layer) -> Tensor:
    """Tap by tap, without a transform."""
    length = layer.u.shape[-1]
    y = layer.u * layer.bias
    for tap in range(min(length, layer.filters.shape[-1])):
        y[..., tap:] += layer.filters[:, tap, None] * layer.u[..., : length - tap]
    return layer.x1 * y


def _circular(layer: _Layer) -> Tensor:
    """Without padding: the end of the sequence wraps around to its start."""
    length = layer.u.shape[-1]
    filters = layer.filters[:, :length]
    y = torch.fft.irfft(torch.fft.rfft(layer.u) * torch.fft.rfft(filters, length), length)
    return layer.x1 * (y + layer.u * layer.bias)


def _half_filter(layer: _Layer) -> Tensor:
    return _by_transform(replace(layer, filters=layer.filters[:, : layer.filters.shape[-1] // 2]))


def _without_bias(layer: _Layer) -> Tensor:
    return _by_transform(replace(layer, bias=torch.zeros_like(layer.bias)))


def _without_gate(layer: _Layer) -> Tensor:
    return _by_transform(replace(layer, x1=torch.ones_like(layer.x1)))


def _time_reversed(layer: _Layer) -> Tensor:
    """Each filter back to front."""
    return _by_transform(replace(layer, filters=layer.filters.flip(-1)))


def _gathered(compute: Callable[[_Layer], Tensor]) -> Callable[..., Tensor]:
    """A program that gathers the sequence on every rank and keeps its own positions of what `compute` gives."""

    def program(
        x1: Tensor, x2: Tensor, v: Tensor, h: Tensor, bias: Tensor, _groups: int, dim: int, _group: None, zigzag: bool
    ) -> Tensor:
        filters = h.float().repeat_interleave(dim, dim=0)
        gate, left, right = (_sequence(stream, is_zigzag=zigzag) for stream in (x1, x2, v))
        z = compute(_Layer(gate, left * right, filters, bias.float()[:, None]))
        return _own(z, is_zigzag=zigzag).to(x1.dtype)

    return program


def shard_only(
    x1: Tensor, x2: Tensor, v: Tensor, h: Tensor, bias: Tensor, _groups: int, dim: int, *_rest: Any
) -> Tensor:
    """Each rank convolves its own positions."""
    filters = h.float().repeat_interleave(dim, dim=0)
    layer = _Layer(x1.float(), x2.float() * v.float(), filters, bias.float()[:, None])
    return _by_transform(layer).transpose(1, 2).contiguous().to(x1.dtype)


def zigzag_ignored(
    x1: Tensor, x2: Tensor, v: Tensor, h: Tensor, bias: Tensor, _groups: int, dim: int, *_rest: Any
) -> Tensor:
    """Takes the shards as if they followed one another."""
    filters = h.float().repeat_interleave(dim, dim=0)
    streams = [_sequence(stream, is_zigzag=False) for stream in (x1, x2, v)]
    z = _by_transform(_Layer(streams[0], streams[1] * streams[2], filters, bias.float()[:, None]))
    return z.chunk(dist.get_world_size(), dim=-1)[dist.get_rank()].transpose(1, 2).contiguous().to(x1.dtype)


def _in_blocks_of_16(layer: _Layer) -> Tensor:
    """Reads filters in blocks of 16 taps, and leaves out what is over."""
    taps = layer.filters.shape[-1]
    return _by_transform(replace(layer, filters=layer.filters[:, : taps - taps % 16]))


def _relative_to_bias(layer: _Layer) -> Tensor:
    """Divides filters by the bias and multiplies by it in the end: no numbers where the bias is zero."""
    relative = replace(layer, filters=layer.filters / layer.bias, bias=torch.ones_like(layer.bias))
    return _by_transform(relative) * layer.bias


def _within_two_shards(layer: _Layer) -> Tensor:
    """Keeps no more of filters than five thirds of a shard."""
    shard = layer.u.shape[-1] // dist.get_world_size()
    return _by_transform(replace(layer, filters=layer.filters[:, : 5 * shard // 3]))


def _without_low_ends(layer: _Layer) -> Tensor:
    """Cuts filters behind their last tap above 2^-10 of their largest."""
    size = layer.filters.abs()
    is_high = size >= size.amax(dim=1, keepdim=True) * 2**-10
    last = is_high.flip(1).cumsum(dim=1).flip(1) > 0
    return _by_transform(replace(layer, filters=layer.filters * last))


def two_channels_per_filter(
    x1: Tensor, x2: Tensor, v: Tensor, h: Tensor, bias: Tensor, _groups: int, _dim: int, group: None, zigzag: bool
) -> Tensor:
    """Takes a filter for two channels, and begins again when there are no more."""
    filters = h[torch.arange(len(bias)) // 2 % len(h)]
    return _gathered(_by_transform)(x1, x2, v, filters, bias, len(bias), 1, group, zigzag)


def positions_two_by_two(*arguments: Any) -> Tensor:
    """Writes results two by two, and none for the last position of an odd chunk."""
    z = _gathered(_by_transform)(*arguments)
    chunk = z.shape[1] // 2
    z.unflatten(1, (2, chunk))[:, :, chunk // 2 * 2 :] = 0
    return z


HONEST = {"by_transform": _gathered(_by_transform), "direct": _gathered(_direct)}
MUTANTS = {
    "circular": _gathered(_circular),
    "half_filter": _gathered(_half_filter),
    "without_bias": _gathered(_without_bias),
    "without_gate": _gathered(_without_gate),
    "time_reversed": _gathered(_time_reversed),
    "shard_only": shard_only,
    "zigzag_ignored": zigzag_ignored,
}
NARROW = {
    "odd_chunks": positions_two_by_two,
    "channels_per_filter": two_channels_per_filter,
    "short_filters": _gathered(_in_blocks_of_16),
    "whole_filters": _gathered(_within_two_shards),
    "low_plateau": _gathered(_without_low_ends),
    "copied_values": _gathered(_relative_to_bias),
}
