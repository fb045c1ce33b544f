"""What each rank owes: interpolation as three products of matrices, everything in float64, nothing rounded."""

from itertools import product

import torch
from torch import Tensor

from problems.catalog.p078_magi1_tile_parallel_vae_decode.inputs import make_inputs
from problems.values import Arguments, Call

Place = tuple[int, ...]
COLOURS = 3
_EVERY_CHANNEL = (slice(None), slice(None))


def expected(call: Call) -> tuple[Tensor, ...]:
    """`video` (B, 3, To, Ho, Wo), the same on every rank."""
    ranks = [make_inputs(call.at_rank(rank)) for rank in range(call.world_size)]
    grid = _Grid(ranks[0], tuple(ranks[0]["z"].shape[2:]))
    latents = [each["z"][:, :COLOURS] for each in ranks]
    decoded = {
        place: _decode(latents[owner][(*_EVERY_CHANNEL, *grid.region(place))].double(), grid.factors)
        for owner, place in grid.owned(call.world_size)
    }
    video = torch.zeros(call.shape(("B", "Co", "To", "Ho", "Wo")), dtype=torch.float64, device=call.device)
    for place, unblended in decoded.items():
        tile = unblended.clone()
        for axis in range(3):
            if place[axis] > 0:
                before = (*place[:axis], place[axis] - 1, *place[axis + 1 :])
                _blend(tile, decoded[before], dim=axis + 2, most=grid.blends[axis])
        kept = tile[(*_EVERY_CHANNEL, *(slice(kept) for kept in grid.kept))]
        target = tuple(
            slice(index * kept, index * kept + length)
            for index, kept, length in zip(place, grid.kept, kept.shape[2:], strict=True)
        )
        video[(*_EVERY_CHANNEL, *target)] = kept
    return (video,)


class _Grid:
    """Where tiles lie: everything by axis, in the order time, height, width."""

    def __init__(self, arguments: Arguments, extents: tuple[int, ...]) -> None:
        first = int(arguments["first_frame_as_image"])
        in_space, in_time = arguments["spatial_tile_overlap_factor"], arguments["temporal_tile_overlap_factor"]
        overlaps = (in_time, in_space, in_space)
        across = arguments["spatial_upsample"] * arguments["sr_ratio"]
        self.extents = extents
        self.lengths = (
            arguments["tile_latent_min_length"] + first,
            arguments["tile_latent_min_height"],
            arguments["tile_latent_min_width"],
        )
        self.factors = (arguments["temporal_upsample"], across, across)
        self.strides = tuple(
            int(length * (1 - overlap)) for length, overlap in zip(self.lengths, overlaps, strict=True)
        )
        full = [length * factor for length, factor in zip(self.lengths, self.factors, strict=True)]
        self.blends = tuple(int(size * overlap) for size, overlap in zip(full, overlaps, strict=True))
        self.kept = tuple(size - blend for size, blend in zip(full, self.blends, strict=True))

    def region(self, place: Place) -> tuple[slice, ...]:
        """The latent positions of a tile."""
        return tuple(
            slice(index * stride, min(index * stride + length, extent))
            for index, stride, length, extent in zip(place, self.strides, self.lengths, self.extents, strict=True)
        )

    def owned(self, world_size: int) -> list[tuple[int, Place]]:
        """Every tile with its owner: the largest first, dealt out in turn."""
        counts = [-(-extent // stride) for extent, stride in zip(self.extents, self.strides, strict=True)]
        places = sorted(product(*map(range, counts)), key=lambda place: -self._volume(place))
        return [(position % world_size, place) for position, place in enumerate(places)]

    def _volume(self, place: Place) -> int:
        volume = 1
        for part in self.region(place):
            volume *= part.stop - part.start
        return volume


def _decode(latent: Tensor, factors: tuple[int, ...]) -> Tensor:
    """Linear interpolation along the last three axes by whole factors, half-pixel centres."""
    weights = [_weights(size, factor).to(latent.device) for size, factor in zip(latent.shape[2:], factors, strict=True)]
    for dim, weight in enumerate(weights, start=2):
        latent = torch.tensordot(latent, weight, dims=([dim], [1])).movedim(-1, dim)
    return latent


def _weights(size: int, factor: int) -> Tensor:
    """The matrix (size * factor, size) that interpolates one axis; beyond the outermost centres values stay."""
    target = torch.arange(size * factor, dtype=torch.float64)
    source = ((target + 0.5) / factor - 0.5).clamp(min=0)
    lower = source.floor().long()
    upper = (lower + 1).clamp(max=size - 1)
    share = source - lower
    weights = torch.zeros(len(target), size, dtype=torch.float64)
    weights[target.long(), lower] += 1 - share
    weights[target.long(), upper] += share
    return weights


def _blend(tile: Tensor, before: Tensor, *, dim: int, most: int) -> None:
    """Fade from the end of the neighbour before into the beginning of `tile`, in place."""
    width = min(before.shape[dim], tile.shape[dim], most)
    if width == 0:
        return
    share = torch.arange(width, dtype=torch.float64, device=tile.device) / width
    share = share.view([-1 if axis == dim else 1 for axis in range(tile.dim())])
    begin = tile.narrow(dim, 0, width)
    end = before.narrow(dim, before.shape[dim] - width, width)
    begin.copy_(end * (1 - share) + begin * share)
