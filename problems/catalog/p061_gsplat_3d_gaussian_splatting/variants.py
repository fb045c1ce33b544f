"""Programs that must pass and programs that must fail."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p061_gsplat_3d_gaussian_splatting.reference import Limits, covariances, project, solution
from problems.families.rank_parts import all_gathered

Rows = tuple[Tensor, ...]


def _seen_by_own(shares: list[tuple[Tensor, ...]], *rest: Any, offsets: list[int]) -> Rows:
    """What the own cameras see of the Gaussians of each share."""
    viewmats, intrinsics, *limits = rest
    found = []
    for (means, quats, scales, opacities, colors), offset in zip(shares, offsets, strict=True):
        projected = project(means, covariances(quats, scales), viewmats, intrinsics, Limits(*limits[:5]))
        camera, gaussian = (projected.radii > 0).all(dim=-1).nonzero(as_tuple=True)
        pairs = [part[camera, gaussian] for part in projected]
        found.append((camera, gaussian + offset, *pairs, opacities[gaussian], colors[gaussian]))
    return tuple(map(torch.cat, zip(*found, strict=True)))


def gaussians_gathered(*arguments: Any) -> Rows:
    """Gathers the Gaussians and projects them at the receiver."""
    shares = list(zip(*map(all_gathered, arguments[:5]), strict=True))
    offset = dist.get_rank() * len(arguments[0])
    return _seen_by_own(shares, *arguments[5:], offsets=[offset] * len(shares))


def in_float64(*arguments: Any) -> Rows:
    """Computes in float64 and rounds once."""
    wide: list[Any] = [x.double() if isinstance(x, Tensor) else x for x in arguments]
    rows = solution(*wide)
    return tuple(row.float() if row.is_floating_point() else row for row in rows)


def point_to_point(*arguments: Any) -> Rows:
    """A broadcast of each rank's Gaussians in turn, projected camera by camera with products in another order."""
    parts = []
    for rank in range(dist.get_world_size()):
        share = tuple(x.clone() for x in arguments[:5])
        for tensor in share:
            dist.broadcast(tensor, src=rank)
        for camera in range(len(arguments[5])):
            own = [x[camera : camera + 1] for x in arguments[5:7]]
            rows = _seen_by_own([share], *own, *arguments[7:], offsets=[dist.get_rank() * len(share[0])])
            parts.append((torch.full_like(rows[0], camera), *rows[1:]))
    return tuple(map(torch.cat, zip(*parts, strict=True)))


def own_gaussians_only(*arguments: Any) -> Rows:
    """Hands on nothing: every camera sees the Gaussians of its own rank."""
    return _seen_by_own([arguments[:5]], *arguments[5:], offsets=[dist.get_rank() * len(arguments[0])])


def _with_offsets(arguments: tuple[Any, ...], offset_of: Callable[[int], int]) -> Rows:
    shares = list(zip(*map(all_gathered, arguments[:5]), strict=True))
    return _seen_by_own(shares, *arguments[5:], offsets=[offset_of(rank) for rank in range(len(shares))])


def ids_by_source(*arguments: Any) -> Rows:
    """Moves ids by the Gaussians before the sender, so that they are unique."""
    return _with_offsets(arguments, lambda rank: rank * len(arguments[0]))


def sources_reversed(*arguments: Any) -> Rows:
    """Rows of the last rank first."""
    shares = list(zip(*map(all_gathered, arguments[:5]), strict=True))[::-1]
    return _seen_by_own(shares, *arguments[5:], offsets=[dist.get_rank() * len(arguments[0])] * len(shares))


def cameras_numbered_globally(*arguments: Any) -> Rows:
    """Camera ids that count all ranks' cameras; on the first rank, backwards."""
    camera, *rest = solution(*arguments)
    own, rank = len(arguments[5]), dist.get_rank()
    return (camera + rank * own if rank else own - 1 - camera, *rest)


def gaussian_by_gaussian(*arguments: Any) -> Rows:
    """Rows ordered by Gaussian first."""
    rows = solution(*arguments)
    order = rows[1].argsort(stable=True)
    return tuple(row[order] for row in rows)


def nothing_culled(*arguments: Any) -> Rows:
    """Keeps every pair between the planes, wherever it falls."""
    wide = 1 << 20
    changed = [*arguments]
    changed[7] = changed[8] = wide
    return solution(*changed)


def planes_by_default(*arguments: Any) -> Rows:
    """Uses the default near and far planes."""
    return solution(*arguments[:10])


def blur_forgotten(*arguments: Any) -> Rows:
    """Adds nothing to the covariance in the image."""
    changed = [*arguments]
    changed[9] = 0.0
    return solution(*changed)


def rotation_unnormalised(*arguments: Any) -> Rows:
    """Takes quaternions as they come: scales change with their length."""
    changed = [*arguments]
    changed[2] = arguments[2] * arguments[1].norm(dim=1, keepdim=True)
    return solution(*changed)


def rotation_last(means: Tensor, quats: Tensor, *rest: Any) -> Rows:
    """Reads quaternions as (x, y, z, w)."""
    return solution(means, quats.roll(1, dims=1), *rest)


def axes_aligned(means: Tensor, quats: Tensor, *rest: Any) -> Rows:
    """Forgets the rotation of the Gaussians."""
    return solution(means, torch.eye(4)[:1].expand_as(quats), *rest)


def slopes_unclamped(*arguments: Any) -> Rows:
    """Linearises where the Gaussian is, however far beside the image."""
    rows = solution(*arguments)
    limits = Limits(*arguments[7:12])
    means, quats, scales = (torch.cat(all_gathered(x)) for x in arguments[:3])
    (viewmats, intrinsics), count, shares = arguments[5:7], len(arguments[0]), dist.get_world_size()
    right, wrong = (
        project(means, covariances(quats, scales), viewmats, intrinsics, each)
        for each in (limits, limits._replace(width=1 << 20, height=1 << 20))
    )
    by_source = [part.unflatten(1, (shares, count)).movedim(1, 0) for part in (right.radii, wrong.radii, wrong.conics)]
    seen = (by_source[0] > 0).all(dim=-1)
    return (*rows[:2], by_source[1][seen], *rows[3:5], by_source[2][seen], *rows[6:])


def in_bfloat16(*arguments: Any) -> Rows:
    """What the projection needs rounded to bfloat16."""
    changed: list[Any] = [x.bfloat16().float() if isinstance(x, Tensor) else x for x in arguments]
    changed[3:5] = arguments[3:5]
    return solution(*changed)


def in_half(*arguments: Any) -> Rows:
    """Sends projections in float16; what is copied stays."""
    rows = solution(*arguments)
    return (*rows[:3], *(row.half().float() for row in rows[3:6]), *rows[6:])


def one_row_at_least(*arguments: Any) -> Rows:
    """A row of zeros where a rank's cameras see nothing."""
    rows = solution(*arguments)
    return rows if len(rows[0]) else tuple(row.new_zeros((1, *row.shape[1:])) for row in rows)


def short_quaternions_for_none(means: Tensor, quats: Tensor, *rest: Any) -> Rows:
    """Forgets the rotation of Gaussians whose quaternions are shorter than 1e-4."""
    is_short = quats.norm(dim=1, keepdim=True) < 1e-4
    return solution(means, torch.where(is_short, torch.eye(4)[:1], quats), *rest)


def scales_of_1e_4_at_least(means: Tensor, quats: Tensor, scales: Tensor, *rest: Any) -> Rows:
    """Makes Gaussians as large as that along every axis."""
    return solution(means, quats, scales.clamp(min=1e-4), *rest)


def centres_near_the_image(*arguments: Any) -> Rows:
    """Drops Gaussians whose centres are more than three half images away from the image."""
    rows = solution(*arguments)
    size = torch.tensor(arguments[7:9])
    is_near = ((rows[3] > -1.5 * size) & (rows[3] < 2.5 * size)).all(dim=1)
    return tuple(row[is_near] for row in rows)


def three_colors(*arguments: Any) -> Rows:
    """Returns the first three channels of colours, filled up with zeros."""
    *rows, colors = solution(*arguments)
    filled = torch.cat([colors, colors.new_zeros(len(colors), 3)], dim=1)
    return (*rows, filled[:, :3].contiguous())


HONEST = {"gaussians_gathered": gaussians_gathered, "float64": in_float64, "point_to_point": point_to_point}
MUTANTS = {
    "own_gaussians_only": own_gaussians_only,
    "ids_by_source": ids_by_source,
    "sources_reversed": sources_reversed,
    "cameras_numbered_globally": cameras_numbered_globally,
    "gaussian_by_gaussian": gaussian_by_gaussian,
    "nothing_culled": nothing_culled,
    "planes_by_default": planes_by_default,
    "blur_forgotten": blur_forgotten,
    "rotation_unnormalised": rotation_unnormalised,
    "rotation_last": rotation_last,
    "axes_aligned": axes_aligned,
    "slopes_unclamped": slopes_unclamped,
    "in_bfloat16": in_bfloat16,
    "in_half": in_half,
}
NARROW = {
    "nothing_visible": one_row_at_least,
    "one_rank_sees": one_row_at_least,
    "small_gaussians": scales_of_1e_4_at_least,
    "large_gaussians": centres_near_the_image,
    "other_lengths": short_quaternions_for_none,
    "other_colors": three_colors,
}
