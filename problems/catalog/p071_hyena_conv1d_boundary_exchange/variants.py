"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import conv1d, pad

from problems.catalog.p071_hyena_conv1d_boundary_exchange.reference import exchange_halos
from problems.families.rank_parts import all_gathered


def _causal(x: Tensor, weight: Tensor) -> Tensor:
    """One sequence, zeros before it, in float32."""
    return conv1d(pad(x.float(), (weight.shape[-1] - 1, 0)), weight.float(), groups=x.shape[1])


def _sequence(x: Tensor) -> list[Tensor]:
    """All 2 W chunks in order, on every rank."""
    parts = all_gathered(x)
    halves = [part.chunk(2, dim=-1) for part in parts]
    return [half[0] for half in halves] + [half[1] for half in reversed(halves)]


def _own(y: Tensor) -> Tensor:
    """The rank's two chunks of a whole sequence."""
    world_size, rank = dist.get_world_size(), dist.get_rank()
    chunks = y.chunk(2 * world_size, dim=-1)
    return torch.cat((chunks[rank], chunks[-1 - rank]), dim=-1)


def _with_halos(x: Tensor, weight: Tensor, before: tuple[Tensor, Tensor]) -> Tensor:
    """Both chunks behind the given halos, one tap after the other in float32."""
    length = x.shape[-1] // 2
    padded = torch.stack([torch.cat(pair, dim=-1) for pair in zip(before, x.chunk(2, dim=-1), strict=True)]).float()
    taps = weight.float().squeeze(1).unbind(dim=1)
    total = sum(tap[:, None] * padded[..., j : j + length] for j, tap in enumerate(taps))
    return torch.cat(tuple(torch.as_tensor(total)), dim=-1).to(x.dtype)


def _ends(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The last positions of the early and of the late chunk."""
    early, late = x.chunk(2, dim=-1)
    return early[..., 1 - weight.shape[-1] :], late[..., 1 - weight.shape[-1] :]


def gathered(x: Tensor, weight: Tensor, group: None) -> Tensor:
    """The whole sequence everywhere, in float32."""
    del group
    return _own(_causal(torch.cat(_sequence(x), dim=-1), weight)).to(x.dtype)


def tap_by_tap(x: Tensor, weight: Tensor, group: None) -> Tensor:
    """Shifted products added up in float32."""
    del group
    return _with_halos(x, weight, exchange_halos(*_ends(x, weight)))


def zeros_before_chunks(x: Tensor, weight: Tensor, group: None) -> Tensor:
    """Each chunk on its own."""
    del group
    return torch.cat([_causal(chunk, weight) for chunk in x.chunk(2, dim=-1)], dim=-1).to(x.dtype)


def chunks_as_neighbours(x: Tensor, weight: Tensor, group: None) -> Tensor:
    """The late chunk right after the early one, on every rank."""
    del group
    before_early, _ = exchange_halos(*_ends(x, weight))
    return _with_halos(x, weight, (before_early, _ends(x, weight)[0]))


def blocks_not_zigzag(x: Tensor, weight: Tensor, group: None) -> Tensor:
    """As if rank r held the chunks 2 r and 2 r + 1."""
    del group
    parts = all_gathered(x)
    return _causal(torch.cat(parts, dim=-1), weight).chunk(len(parts), dim=-1)[dist.get_rank()].to(x.dtype)


def flipped_filter(x: Tensor, weight: Tensor, group: None) -> Tensor:
    """A convolution where a cross-correlation is asked for."""
    return tap_by_tap(x, weight.flip(-1), group)


def halo_one_short(x: Tensor, weight: Tensor, group: None) -> Tensor:
    """Forgets the oldest position of every halo."""
    del group
    halos = exchange_halos(*_ends(x, weight))
    for halo in halos:
        halo[..., 0] = 0
    return _with_halos(x, weight, halos)


def seven_taps(x: Tensor, weight: Tensor, group: None) -> Tensor:
    """Reads seven taps up to the end of each filter, wherever it begins."""
    flat = pad(weight.flatten(), (7, 0))
    ends = (1 + torch.arange(len(weight))) * weight.shape[-1]
    seven = flat[ends[:, None] + torch.arange(7)][:, None]
    del group
    return _own(_causal(torch.cat(_sequence(x), dim=-1), seven)).to(x.dtype)


def positions_two_by_two(x: Tensor, weight: Tensor, group: None) -> Tensor:
    """Writes results two by two, and none for the last position of an odd chunk."""
    y = gathered(x, weight, group)
    chunk = y.shape[-1] // 2
    y.unflatten(-1, (2, chunk))[..., chunk // 2 * 2 :] = 0
    return y


def halo_within_the_chunk(x: Tensor, weight: Tensor, group: None) -> Tensor:
    """Takes it that a chunk has a position that no other chunk needs."""
    del group
    halos = exchange_halos(*_ends(x, weight))
    for halo in halos:
        halo[..., : halo.shape[-1] - x.shape[-1] // 2 + 1] = 0
    return _with_halos(x, weight, halos)


HONEST = {"gathered": gathered, "tap_by_tap": tap_by_tap}
MUTANTS = {
    "zeros_before_chunks": zeros_before_chunks,
    "chunks_as_neighbours": chunks_as_neighbours,
    "blocks_not_zigzag": blocks_not_zigzag,
    "flipped_filter": flipped_filter,
    "halo_one_short": halo_one_short,
}
NARROW = {
    "odd_chunks": positions_two_by_two,
    "short_filters": seven_taps,
    "long_filters": seven_taps,
    "whole_chunks": halo_within_the_chunk,
}
