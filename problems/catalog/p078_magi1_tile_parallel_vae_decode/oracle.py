"""The expected outputs: interpolation and blending as products of matrices along the axes, in float64, nothing rounded.

Written out, a blended tile is a sum of four interpolated ones, each scaled along the axes:

    w (h (t own + (1 - t) before_t) + (1 - h) before_h) + (1 - w) before_w

where t, h, w run from 0 to 1 over the overlap and before_a is the end of the neighbour before along axis a. So every
axis has three matrices: one that interpolates, one that fades what it interpolates in, one that fades the neighbour's
end out.
"""

from dataclasses import dataclass
from itertools import product
from math import prod

import torch
from torch import Tensor

from problems.catalog.p078_magi1_tile_parallel_vae_decode.inputs import make_inputs
from problems.inputs.values import Arguments, Call

COLOURS = 3


def expected(call: Call) -> tuple[Tensor, ...]:
    """`video` (B, 3, To, Ho, Wo), the same on every rank."""
    ranks = [make_inputs(call.at_rank(rank)) for rank in range(call.world_size)]
    axes = _axes(ranks[0])
    tiles = _tiles([each["z"][:, :COLOURS].flatten(0, 1) for each in ranks], axes)
    # Letters: i, j, k tiles in time, height, width; c channels; t, h, w latents; T, H, W what is kept of a tile.
    t, h, w = axes
    plain = torch.einsum("ijkcthw,iTt->ijkcThw", tiles, t.plain)
    faded = torch.einsum("ijkcthw,iTt->ijkcThw", tiles, t.fading_in)
    faded += torch.einsum("ijkcthw,iTt->ijkcThw", tiles.roll(1, dims=0), t.fading_out)
    faded = torch.einsum("ijkcThw,jHh->ijkcTHw", faded, h.fading_in)
    faded += torch.einsum("ijkcThw,jHh->ijkcTHw", plain.roll(1, dims=1), h.fading_out)
    plain = torch.einsum("ijkcThw,jHh->ijkcTHw", plain, h.plain)
    video = torch.einsum("ijkcTHw,kWw->ciTjHkW", faded, w.fading_in)
    video += torch.einsum("ijkcTHw,kWw->ciTjHkW", plain.roll(1, dims=2), w.fading_out)
    extents = [len(axis.regions) * axis.plain.shape[1] for axis in axes]
    *_, frames, height, width = shape = call.shape(("B", "Co", "To", "Ho", "Wo"))
    return (video.reshape(-1, *extents)[:, :frames, :height, :width].reshape(shape).contiguous(),)


@dataclass(frozen=True, kw_only=True)
class _Axis:
    """Tiles along one axis: the latents of each, and matrices (tiles, kept, longest) with zeros beyond border tiles.

    `fading_out` takes the latents of the tile before; the first tile has none.
    """

    regions: tuple[slice, ...]
    plain: Tensor
    fading_in: Tensor
    fading_out: Tensor


def _axes(arguments: Arguments) -> tuple[_Axis, ...]:
    """Time, height and width."""
    in_space, in_time = arguments["spatial_tile_overlap_factor"], arguments["temporal_tile_overlap_factor"]
    across = arguments["spatial_upsample"] * arguments["sr_ratio"]
    latents = arguments["z"]
    lengths = (
        arguments["tile_latent_min_length"] + int(arguments["first_frame_as_image"]),
        arguments["tile_latent_min_height"],
        arguments["tile_latent_min_width"],
    )
    factors, overlaps = (arguments["temporal_upsample"], across, across), (in_time, in_space, in_space)
    return tuple(
        _axis(extent, length=length, factor=factor, overlap=overlap, device=latents.device)
        for extent, length, factor, overlap in zip(latents.shape[2:], lengths, factors, overlaps, strict=True)
    )


def _axis(extent: int, *, length: int, factor: int, overlap: float, device: torch.device) -> _Axis:
    stride, blend = int(length * (1 - overlap)), int(length * factor * overlap)
    starts = range(0, extent, stride)
    sizes = [min(length, extent - start) for start in starts]
    plain, fading_in, fading_out = torch.zeros(3, len(sizes), length * factor, length, dtype=torch.float64)
    for tile, size in enumerate(sizes):
        decoded = size * factor
        plain[tile, :decoded, :size] = fading_in[tile, :decoded, :size] = _weights(size, factor)
        if tile > 0:
            before = sizes[tile - 1] * factor
            width = min(before, decoded, blend)
            share = (torch.arange(width, dtype=torch.float64) / width).unsqueeze(1)
            fading_in[tile, :width] *= share
            fading_out[tile, :width] = (1 - share) * plain[tile - 1, before - width : before]
    plain, fading_in, fading_out = (
        matrices[:, : length * factor - blend].to(device) for matrices in (plain, fading_in, fading_out)
    )
    return _Axis(
        regions=tuple(slice(start, start + size) for start, size in zip(starts, sizes, strict=True)),
        plain=plain,
        fading_in=fading_in,
        fading_out=fading_out,
    )


def _weights(size: int, factor: int) -> Tensor:
    """The matrix (size * factor, size) that interpolates one axis by a whole factor, with half-pixel centres.

    Beyond the outermost centres values stay.
    """
    target = torch.arange(size * factor, dtype=torch.float64)
    source = ((target + 0.5) / factor - 0.5).clamp(min=0)
    lower = source.floor().long()
    upper = (lower + 1).clamp(max=size - 1)
    share = source - lower
    weights = torch.zeros(len(target), size, dtype=torch.float64)
    weights[target.long(), lower] += 1 - share
    weights[target.long(), upper] += share
    return weights


def _tiles(latents: list[Tensor], axes: tuple[_Axis, ...]) -> Tensor:
    """Every tile's latents in float64 (tiles and channels, then t, h, w), cut from its owner's and padded with zeros.

    The largest tiles come first and are dealt out in turn.
    """
    counts, longest = ([axis.plain.shape[place] for axis in axes] for place in (0, 2))
    regions = {
        place: [axis.regions[index] for axis, index in zip(axes, place, strict=True)]
        for place in product(*map(range, counts))
    }
    largest_first = sorted(regions, key=lambda place: -prod(region.stop - region.start for region in regions[place]))
    tiles = latents[0].new_zeros(*counts, len(latents[0]), *longest, dtype=torch.float64)
    for position, place in enumerate(largest_first):
        cut = latents[position % len(latents)][:, *regions[place]]
        tiles[place][:, *map(slice, cut.shape[1:])] = cut
    return tiles
