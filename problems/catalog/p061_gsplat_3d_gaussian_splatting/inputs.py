"""Arguments of one rank for one call, and the projection that says which Gaussians are safe to draw.

Cameras stand around the scene and look at it from everywhere, some Gaussians lie behind, before or beside what a camera
sees, and a few are so large that they reach into an image from far outside. Radii are rounded up and pairs are kept or
dropped by comparisons, so Gaussians for which float32 could decide otherwise than float64 are drawn anew.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from problems.values import Arguments, Call

EPS2D = 0.3
NEAR_PLANE = 0.5
FAR_PLANE = 3.5
RADII = 3.33
"""Standard deviations that a radius covers."""

_DISTANCE = 2.5
_SCENE = 1.5
_LARGE = 0.1
_SMALL_PIXELS = 10.0

_RADIUS_MARGIN = (2e-3, 1e-5)
"""Absolute, and relative to the radius."""
_DEPTH_MARGIN = 1e-3
_BORDER_MARGIN = 2e-2


@dataclass(frozen=True)
class Projected:
    """One rank's Gaussians in one camera, in float64: two entries for the axes of the image, three for the conic."""

    visible: Tensor
    safe: Tensor
    radii: Tensor
    means2d: Tensor
    depths: Tensor
    conics: Tensor


def make_inputs(call: Call) -> Arguments:
    """The rank's Gaussians and cameras, the size of the image and the limits."""
    viewmats, intrinsics = _cameras(call, call.rank)
    return {
        **_gaussians(call),
        "viewmats": viewmats,
        "Ks": intrinsics,
        "image_width": call.dims["wd"],
        "image_height": call.dims["ht"],
        "eps2d": EPS2D,
        "near_plane": NEAR_PLANE,
        "far_plane": FAR_PLANE,
        "camera_model": "pinhole",
    }


def _gaussians(call: Call) -> Arguments:
    """Means, rotations, scales, opacities and colours of the rank's n Gaussians: of a few more, the first safe ones.

    Most are at most four or five pixels wide where the scene is; one in 16 is a good part of the image.
    """
    count = call.dims["n"] * 5 // 4 + 256
    is_large = call.uniform("large", (count, 1), dtype=torch.float32) < 1 / 16
    size = torch.where(is_large, _LARGE, _SMALL_PIXELS / min(call.dims["wd"], call.dims["ht"]))
    scales = call.uniform("scales", (count, 3), low=0.1, dtype=torch.float32) * size
    drawn = {
        "means": call.uniform("means", (count, 3), low=-_SCENE, high=_SCENE, dtype=torch.float32),
        "quats": call.normal("quats", (count, 4), dtype=torch.float32),
        "scales": scales,
        "opacities": call.uniform("opacities", (count,), low=0.1, high=0.9, dtype=torch.float32),
        "colors": call.uniform("colors", (count, call.dims["Dc"]), dtype=torch.float32),
    }
    safe = torch.ones(count, dtype=torch.bool, device=call.device)
    for viewmat, intrinsic in every_camera(call):
        safe &= project(call, drawn["means"], drawn["quats"], drawn["scales"], viewmat, intrinsic).safe
    chosen = safe.nonzero()[: call.dims["n"], 0]
    if len(chosen) < call.dims["n"]:
        raise ValueError(f"only {len(chosen)} of {count} Gaussians are safe, {call.dims['n']} are needed")
    return {name: tensor[chosen] for name, tensor in drawn.items()}


def every_camera(call: Call) -> Iterator[tuple[Tensor, Tensor]]:
    """View matrix (4, 4) and intrinsics (3, 3) of all ranks' cameras, in order."""
    for rank in range(call.world_size):
        yield from zip(*_cameras(call, rank), strict=True)


def _cameras(call: Call, rank: int) -> tuple[Tensor, Tensor]:
    """View matrices (Cl, 4, 4) and intrinsics (Cl, 3, 3) of a rank's cameras, in float32.

    A camera stands about `_DISTANCE` from the middle, in a random direction, and looks nearly at it. Focal lengths and
    principal points differ between cameras.
    """
    call, cameras = call.at_rank(rank), call.dims["Cl"]
    draw = call.normal("cameras", (cameras, 9), dtype=torch.float32).double()
    forward = torch.nn.functional.normalize(draw[:, :3], dim=1)
    right = torch.nn.functional.normalize(torch.linalg.cross(forward, draw[:, 3:6]), dim=1)
    viewmats = torch.eye(4, dtype=torch.float64, device=call.device).repeat(cameras, 1, 1)
    viewmats[:, :3, :3] = torch.stack([right, torch.linalg.cross(forward, right), forward], dim=1)
    viewmats[:, :3, 3] = draw[:, 6:] * 0.05
    viewmats[:, 2, 3] += _DISTANCE
    jitter = call.uniform("intrinsics", (cameras, 4), low=-1.0, dtype=torch.float32).double()
    width, height = call.dims["wd"], call.dims["ht"]
    intrinsics = torch.zeros(cameras, 3, 3, dtype=torch.float64, device=call.device)
    intrinsics[:, 0, 0] = 0.8 * min(width, height) * (1 + 0.2 * jitter[:, 0])
    intrinsics[:, 1, 1] = 0.8 * min(width, height) * (1 + 0.2 * jitter[:, 1])
    intrinsics[:, 0, 2] = width * (0.5 + 0.1 * jitter[:, 2])
    intrinsics[:, 1, 2] = height * (0.5 + 0.1 * jitter[:, 3])
    intrinsics[:, 2, 2] = 1
    return viewmats.float(), intrinsics.float()


def project(call: Call, means: Tensor, quats: Tensor, scales: Tensor, viewmat: Tensor, intrinsic: Tensor) -> Projected:
    """Gaussians (n, .) in one camera, in float64, written out element by element."""
    width, height = call.dims["wd"], call.dims["ht"]
    x, y, depths = _transformed(means.double(), viewmat.double())
    focal = [float(intrinsic[axis, axis]) for axis in range(2)]
    centre = [float(intrinsic[axis, 2]) for axis in range(2)]
    slopes, rows = [], []
    axes = _axes(quats.double(), scales.double(), viewmat.double())
    for axis, (place, extent) in enumerate(((x, width), (y, height))):
        beyond = 0.15 * extent / focal[axis]
        low, high = centre[axis] / focal[axis] + beyond, (extent - centre[axis]) / focal[axis] + beyond
        slopes.append((place / depths).clamp(-low, high))
        rows.append([focal[axis] / depths * (axes[axis][j] - slopes[axis] * axes[2][j]) for j in range(3)])
    xx, yy = _product(rows[0], rows[0]) + EPS2D, _product(rows[1], rows[1]) + EPS2D
    xy = _product(rows[0], rows[1])
    determinant = (xx * yy - xy * xy).clamp(min=1e-10)
    spreads = torch.stack([RADII * xx.sqrt(), RADII * yy.sqrt()], dim=1)
    radii = spreads.ceil()
    means2d = torch.stack([focal[0] * x / depths + centre[0], focal[1] * y / depths + centre[1]], dim=1)
    size = torch.tensor([width, height], dtype=torch.float64, device=means.device)
    in_depth = (depths > NEAR_PLANE) & (depths < FAR_PLANE)
    inside = (means2d + radii > 0) & (means2d - radii < size)
    near_border = torch.minimum((means2d + radii).abs(), (means2d - radii - size).abs()) < _BORDER_MARGIN
    near_integer = (spreads - spreads.round()).abs() < _RADIUS_MARGIN[0] + _RADIUS_MARGIN[1] * spreads
    near_plane = torch.minimum((depths - NEAR_PLANE).abs(), (depths - FAR_PLANE).abs()) < _DEPTH_MARGIN
    return Projected(
        visible=in_depth & inside.all(dim=1),
        safe=~near_plane & ~(in_depth & (near_border | near_integer).any(dim=1)),
        radii=radii,
        means2d=means2d,
        depths=depths,
        conics=torch.stack([yy / determinant, -xy / determinant, xx / determinant], dim=1),
    )


def _transformed(points: Tensor, viewmat: Tensor) -> list[Tensor]:
    """The three coordinates of points (n, 3) before a camera."""
    return [_product(list(viewmat[i, :3]), list(points.T)) + viewmat[i, 3] for i in range(3)]


def _product(left: Sequence[Tensor], right: Sequence[Tensor]) -> Tensor:
    """The scalar product of two vectors given by coordinate."""
    return left[0] * right[0] + left[1] * right[1] + left[2] * right[2]


def _axes(quats: Tensor, scales: Tensor, viewmat: Tensor) -> list[list[Tensor]]:
    """Entry [i][j]: coordinate i before the camera of a Gaussian's j-th axis, one standard deviation long."""
    w, x, y, z = (quats / quats.norm(dim=1, keepdim=True).clamp(min=1e-12)).unbind(dim=1)
    rotation = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    columns = list(zip(*rotation, strict=True))
    return [[_product(list(viewmat[i, :3]), columns[j]) * scales[:, j] for j in range(3)] for i in range(3)]
