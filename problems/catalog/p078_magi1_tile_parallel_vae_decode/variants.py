"""Programs that must pass and programs that must fail."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import interpolate

from problems.catalog.p078_magi1_tile_parallel_vae_decode.reference import (
    Place,
    Tiling,
    blend,
    crop,
    decode,
    join,
    plan,
    solution,
)
from problems.families.rank_parts import all_gathered

Decoder = Callable[[Tensor, Tiling, Place], Tensor]
Fade = Callable[[Tensor, Tensor, int, int], None]


def _tiling(z: Tensor, arguments: tuple[Any, ...]) -> Tiling:
    length, height, width, in_space, in_time, across, along, ratio, first, _ = arguments
    factors = (along, across * ratio, across * ratio)
    return plan(tuple(z.shape[2:]), (length + first, height, width), (in_time, in_space, in_space), factors)


def _everyone(z: Tensor) -> list[Tensor]:
    """The colour channels of all ranks' latents."""
    colours = z[:, :3].contiguous()
    return all_gathered(colours)


def _everywhere(
    z: Tensor,
    tiling: Tiling,
    *,
    decoder: Decoder = decode,
    dealt: list[list[Place]] | None = None,
    own_latents: bool = False,
) -> dict[Place, Tensor]:
    """All tiles, decoded here from their owners' gathered latents."""
    latents = [z] * dist.get_world_size() if own_latents else _everyone(z)
    shares = dealt or tiling.dealt(len(latents))
    return {
        place: decoder(latent, tiling, place)
        for latent, places in zip(latents, shares, strict=True)
        for place in places
    }


def _finish(tiles: dict[Place, Tensor], tiling: Tiling) -> Tensor:
    return join({place: crop(tile, tiling, place) for place, tile in tiles.items()}, tiling)


def _blended(tiles: dict[Place, Tensor], tiling: Tiling) -> Tensor:
    return _finish({place: blend(tiles, tiling, place) for place in tiles}, tiling)


def latents_gathered(z: Tensor, *arguments: Any) -> Tensor:
    """Gathers three channels of latents; everything else happens everywhere."""
    tiling = _tiling(z, arguments)
    return _blended(_everywhere(z, tiling), tiling)


def _decode_wide(z: Tensor, tiling: Tiling, place: Place) -> Tensor:
    return decode(z.float(), tiling, place)


def in_float32(z: Tensor, *arguments: Any) -> Tensor:
    """Rounds once, at the end."""
    tiling = _tiling(z, arguments)
    return _blended(_everywhere(z, tiling, decoder=_decode_wide), tiling).to(z.dtype)


def _line_by_line(tile: Tensor, before: Tensor, dim: int, extent: int) -> None:
    """Both products and their sum rounded, one line after the other."""
    width = min(before.shape[dim], tile.shape[dim], extent)
    for line in range(width):
        end = before.select(dim, before.shape[dim] - width + line)
        begin = tile.select(dim, line)
        begin.copy_(end * (1 - line / width) + begin * (line / width))


def _fade_by(tiles: dict[Place, Tensor], tiling: Tiling, fade: Fade, axes: tuple[int, ...]) -> dict[Place, Tensor]:
    """Tiles faded along `axes` in their order."""
    faded = {}
    for place, decoded in tiles.items():
        faded[place] = decoded.clone()
        for axis in axes:
            if place[axis] > 0:
                before = tiles[(*place[:axis], place[axis] - 1, *place[axis + 1 :])]
                fade(faded[place], before, axis + 2, tiling.blends[axis])
    return faded


def broadcast_tiles(z: Tensor, *arguments: Any) -> Tensor:
    """One broadcast per tile; every step of the blending rounded, as the definition was first written."""
    tiling = _tiling(z, arguments)
    decoded = {}
    for rank, places in enumerate(tiling.dealt(dist.get_world_size())):
        for place in places:
            if rank == dist.get_rank():
                decoded[place] = decode(z, tiling, place)
            else:
                decoded[place] = z.new_empty((z.shape[0], 3, *tiling.decoded_shape(place)))
            dist.broadcast(decoded[place], src=rank)
    return _finish(_fade_by(decoded, tiling, _line_by_line, (0, 1, 2)), tiling)


def own_latents_only(z: Tensor, *arguments: Any) -> Tensor:
    """Takes the latents for replicated and decodes every tile from its own."""
    tiling = _tiling(z, arguments)
    return _blended(_everywhere(z, tiling, own_latents=True), tiling)


def dealt_in_order(z: Tensor, *arguments: Any) -> Tensor:
    """Deals tiles out by their index, whatever their size."""
    tiling = _tiling(z, arguments)
    places = sorted(place for share in tiling.dealt(1) for place in share)
    count = dist.get_world_size()
    return _blended(_everywhere(z, tiling, dealt=[places[rank::count] for rank in range(count)]), tiling)


def unblended(z: Tensor, *arguments: Any) -> Tensor:
    """Tiles side by side, overlaps dropped."""
    tiling = _tiling(z, arguments)
    return _finish(_everywhere(z, tiling), tiling)


def blended_in_space_only(z: Tensor, *arguments: Any) -> Tensor:
    """No fading in time."""
    tiling = _tiling(z, arguments)
    return _finish(_fade_by(_everywhere(z, tiling), tiling, _line_by_line, (1, 2)), tiling)


def axes_reversed(z: Tensor, *arguments: Any) -> Tensor:
    """Fades along width first and time last: corners differ."""
    tiling = _tiling(z, arguments)
    return _finish(_fade_by(_everywhere(z, tiling), tiling, _line_by_line, (2, 1, 0)), tiling)


def from_blended_neighbours(z: Tensor, *arguments: Any) -> Tensor:
    """Fades from neighbours that have been blended themselves."""
    tiling = _tiling(z, arguments)
    tiles = _everywhere(z, tiling)
    for place in sorted(tiles):
        tiles[place] = blend(tiles, tiling, place)
    return _finish(tiles, tiling)


def _corners_aligned(z: Tensor, tiling: Tiling, place: Place) -> Tensor:
    region = [
        slice(i * s, i * s + n) for i, s, n in zip(place, tiling.strides, tiling.latent_shape(place), strict=True)
    ]
    latent = z[(slice(None), slice(3), *region)].float()
    wide = interpolate(latent, size=tiling.decoded_shape(place), mode="trilinear", align_corners=True)
    return wide.to(z.dtype)


def corners_aligned(z: Tensor, *arguments: Any) -> Tensor:
    """Interpolates so that the outermost centres coincide."""
    tiling = _tiling(z, arguments)
    return _blended(_everywhere(z, tiling, decoder=_corners_aligned), tiling)


def cut_after_decoding(z: Tensor, *arguments: Any) -> Tensor:
    """Interpolates a rank's whole latent once and cuts tiles from it, so that borders know what lies beyond."""
    tiling = _tiling(z, arguments)
    factors = tuple(map(float, tiling.factors))
    whole = [interpolate(each.float(), scale_factor=factors, mode="trilinear") for each in _everyone(z)]
    tiles = {}
    for wide, places in zip(whole, tiling.dealt(len(whole)), strict=True):
        for place in places:
            axes = zip(place, tiling.strides, tiling.factors, tiling.decoded_shape(place), strict=True)
            region = [slice(index * stride * by, index * stride * by + size) for index, stride, by, size in axes]
            tiles[place] = wide[(slice(None), slice(None), *region)].to(z.dtype)
    return _blended(tiles, tiling)


def ratio_ignored(z: Tensor, *arguments: Any) -> Tensor:
    """Leaves the super-resolution ratio out of the interpolation and repeats pixels instead."""
    changed, ratio = [*arguments], arguments[7]
    changed[7] = 1
    small = solution(z, *changed)
    return small.repeat_interleave(ratio, dim=3).repeat_interleave(ratio, dim=4)


def fading_within_what_is_kept(z: Tensor, *arguments: Any) -> Tensor:
    """Fades over no more of a tile than it fills in the video."""
    tiling = _tiling(z, arguments)
    blends = tuple(map(min, tiling.blends, tiling.kept))
    tiles = _everywhere(z, tiling)
    return _finish({place: blend(tiles, replace(tiling, blends=blends), place) for place in tiles}, tiling)


def square_tiles(z: Tensor, length: int, _height: int, width: int, *rest: Any) -> Tensor:
    """Takes a tile's width for its height, too."""
    return solution(z, length, width, width, *rest)


HONEST = {"latents_gathered": latents_gathered, "float32": in_float32, "broadcast_tiles": broadcast_tiles}
MUTANTS = {
    "own_latents_only": own_latents_only,
    "dealt_in_order": dealt_in_order,
    "unblended": unblended,
    "blended_in_space_only": blended_in_space_only,
    "axes_reversed": axes_reversed,
    "from_blended_neighbours": from_blended_neighbours,
    "corners_aligned": corners_aligned,
    "cut_after_decoding": cut_after_decoding,
    "ratio_ignored": ratio_ignored,
}
NARROW = {
    "most_overlaps": fading_within_what_is_kept,
    "most_overlaps_in_time": fading_within_what_is_kept,
    "low_tiles": square_tiles,
}
