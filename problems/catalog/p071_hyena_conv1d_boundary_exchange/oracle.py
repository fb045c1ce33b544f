"""What each rank owes, in float64."""

import torch
from torch import Tensor
from torch.nn.functional import conv1d

from problems.catalog.p071_hyena_conv1d_boundary_exchange.inputs import make_inputs
from problems.values import Call

_CHANNELS = 256
"""Channels convolved at a time, so that float64 copies of a large shard stay small."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`y` (B, C, 2 Lc): each chunk convolved after the end of the chunk before it in the sequence."""
    own = make_inputs(call)
    early, late = own["x"].chunk(2, dim=-1)
    halo = own["weight"].shape[-1] - 1
    before_early = _tail(call, call.rank - 1, 0, halo) if call.rank else torch.zeros_like(early[..., :halo])
    is_last = call.rank == call.world_size - 1
    before_late = early[..., -halo:] if is_last else _tail(call, call.rank + 1, 1, halo)
    chunks = [torch.cat(pair, dim=-1) for pair in ((before_early, early), (before_late, late))]
    return (torch.cat([_convolve(chunk, own["weight"]) for chunk in chunks], dim=-1),)


def _tail(call: Call, rank: int, chunk: int, halo: int) -> Tensor:
    """The last positions of a peer's early (0) or late (1) chunk."""
    x: Tensor = make_inputs(call.at_rank(rank))["x"]
    return x.chunk(2, dim=-1)[chunk][..., -halo:].clone()


def _convolve(padded: Tensor, weight: Tensor) -> Tensor:
    blocks = zip(padded.split(_CHANNELS, dim=1), weight.split(_CHANNELS), strict=True)
    return torch.cat([conv1d(x.double(), w.double(), groups=x.shape[1]) for x, w in blocks], dim=1)
