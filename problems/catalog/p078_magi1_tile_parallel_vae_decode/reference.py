"""The baseline: owners decode, all tiles to all ranks, owners blend, all blended tiles to all ranks, put together."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import ceil, prod

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import interpolate

Place = tuple[int, ...]


@dataclass(frozen=True)
class Tiling:
    """Tiles along time, height and width: latent strides and lengths, factors, and decoded sizes to blend and keep."""

    extents: tuple[int, ...]
    lengths: tuple[int, ...]
    strides: tuple[int, ...]
    factors: tuple[int, ...]
    blends: tuple[int, ...]
    kept: tuple[int, ...]

    def counts(self) -> list[int]:
        """Tiles along each axis."""
        return [ceil(extent / stride) for extent, stride in zip(self.extents, self.strides, strict=True)]

    def latent_shape(self, place: Place) -> list[int]:
        """Latent size of a tile, cut at the border."""
        axes = zip(place, self.extents, self.lengths, self.strides, strict=True)
        return [min(length, extent - index * stride) for index, extent, length, stride in axes]

    def decoded_shape(self, place: Place) -> list[int]:
        """Size of a decoded tile."""
        return [size * factor for size, factor in zip(self.latent_shape(place), self.factors, strict=True)]

    def kept_shape(self, place: Place) -> list[int]:
        """Size of the part that a tile fills in the video."""
        return [min(size, kept) for size, kept in zip(self.decoded_shape(place), self.kept, strict=True)]

    def dealt(self, world_size: int) -> list[list[Place]]:
        """The tiles of each rank: sorted by size, the largest first, dealt out in turn."""
        places = sorted(product(*map(range, self.counts())), key=lambda place: -prod(self.latent_shape(place)))
        return [places[rank::world_size] for rank in range(world_size)]


def solution(
    z: Tensor,
    tile_latent_min_length: int,
    tile_latent_min_height: int,
    tile_latent_min_width: int,
    spatial_tile_overlap_factor: float,
    temporal_tile_overlap_factor: float,
    spatial_upsample: int,
    temporal_upsample: int,
    sr_ratio: int = 1,
    first_frame_as_image: bool = False,
    group: "dist.ProcessGroup | None" = None,
) -> Tensor:
    """The whole video (B, 3, To, Ho, Wo) in the dtype of `z`, on every rank."""
    tiling = plan(
        tuple(z.shape[2:]),
        (tile_latent_min_length + first_frame_as_image, tile_latent_min_height, tile_latent_min_width),
        (temporal_tile_overlap_factor, spatial_tile_overlap_factor, spatial_tile_overlap_factor),
        (temporal_upsample, spatial_upsample * sr_ratio, spatial_upsample * sr_ratio),
    )
    dealt = tiling.dealt(dist.get_world_size(group))
    own = dealt[dist.get_rank(group)]
    decoded = exchange([decode(z, tiling, place) for place in own], z, dealt, tiling.decoded_shape, group)
    blended = [crop(blend(decoded, tiling, place), tiling, place) for place in own]
    return join(exchange(blended, z, dealt, tiling.kept_shape, group), tiling)


def plan(
    extents: tuple[int, ...], lengths: tuple[int, ...], overlaps: tuple[float, ...], factors: tuple[int, ...]
) -> Tiling:
    """The tiling of a latent video; every argument by axis: time, height, width."""
    strides = tuple(int(length * (1 - overlap)) for length, overlap in zip(lengths, overlaps, strict=True))
    if min(strides) < 1:
        raise ValueError(f"tiles of {lengths} that overlap by {overlaps} do not advance")
    full = [length * factor for length, factor in zip(lengths, factors, strict=True)]
    blends = tuple(int(size * overlap) for size, overlap in zip(full, overlaps, strict=True))
    kept = tuple(size - blend for size, blend in zip(full, blends, strict=True))
    return Tiling(extents, lengths, strides, factors, blends, kept)


def decode(z: Tensor, tiling: Tiling, place: Place) -> Tensor:
    """One tile of the rank's own latents as colours: three channels, trilinear, rounded to the dtype of `z`."""
    axes = zip(place, tiling.strides, tiling.latent_shape(place), strict=True)
    region = [slice(index * stride, index * stride + length) for index, stride, length in axes]
    latent = z[(slice(None), slice(3), *region)].float()
    factors = tuple(map(float, tiling.factors))
    return interpolate(latent, scale_factor=factors, mode="trilinear", align_corners=False).to(z.dtype)


def blend(decoded: dict[Place, Tensor], tiling: Tiling, place: Place) -> Tensor:
    """A tile faded into from its neighbours before it, along time, then height, then width."""
    tile = decoded[place].clone()
    for axis, extent in enumerate(tiling.blends):
        if place[axis] > 0:
            before = decoded[(*place[:axis], place[axis] - 1, *place[axis + 1 :])]
            fade(tile, before, dim=axis + 2, extent=extent)
    return tile


def fade(tile: Tensor, before: Tensor, *, dim: int, extent: int) -> None:
    """Replace the first entries of `tile` along `dim` by a mixture with the last of `before`."""
    width = min(before.shape[dim], tile.shape[dim], extent)
    if width == 0:
        return
    share = (torch.arange(width, device=tile.device) / width).view(
        [-1 if axis == dim else 1 for axis in range(tile.dim())]
    )
    begin, end = tile.narrow(dim, 0, width), before.narrow(dim, before.shape[dim] - width, width)
    begin.copy_(torch.lerp(end.float(), begin.float(), share))


def crop(tile: Tensor, tiling: Tiling, place: Place) -> Tensor:
    """The part of a tile that it fills in the video."""
    return tile[(slice(None), slice(None), *map(slice, tiling.kept_shape(place)))]


def exchange(
    tiles: list[Tensor],
    z: Tensor,
    dealt: list[list[Place]],
    shape_of: Callable[[Place], list[int]],
    group: "dist.ProcessGroup | None",
) -> dict[Place, Tensor]:
    """All ranks' tiles by place; a rank's tiles travel in one piece, padded to the largest share of a rank."""
    shapes = [[(z.shape[0], 3, *shape_of(place)) for place in places] for places in dealt]
    sizes = [[prod(shape) for shape in of_rank] for of_rank in shapes]
    share = z.new_zeros(max(map(sum, sizes)))
    for tile, part in zip(tiles, share.split(_padded(sizes[dist.get_rank(group)], len(share))), strict=False):
        part.view(tile.shape).copy_(tile)
    shares = z.new_empty((len(dealt), len(share)))
    dist.all_gather_into_tensor(shares.view(-1), share, group=group)
    found = {}
    for rank, places in enumerate(dealt):
        parts = shares[rank].split(_padded(sizes[rank], len(share)))
        found.update({place: part.view(shape) for place, part, shape in zip(places, parts, shapes[rank], strict=False)})
    return found


def _padded(sizes: list[int], total: int) -> list[int]:
    """The sizes, and what is left of `total`."""
    return [*sizes, total - sum(sizes)]


def join(tiles: dict[Place, Tensor], tiling: Tiling) -> Tensor:
    """The video: tiles side by side along width, height and time."""
    frames, rows, columns = map(range, tiling.counts())
    return torch.cat(
        [torch.cat([torch.cat([tiles[t, h, w] for w in columns], dim=4) for h in rows], dim=3) for t in frames], dim=2
    )
