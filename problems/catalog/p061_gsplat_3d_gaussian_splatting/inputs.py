"""Arguments of one rank for one call, and the projection that says which Gaussians are safe to draw.

Cameras stand around the scene and look at it from everywhere, some Gaussians lie behind, before or beside what a camera
sees, and a few are so large that they reach into an image from far outside. Radii are rounded up and pairs are kept or
dropped by comparisons, so Gaussians for which float32 could decide otherwise than float64 are drawn anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from problems.inputs.copied_values import copied
from problems.inputs.regime_values import owner
from problems.inputs.values import Arguments, Call

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
_BALL_MARGIN = (2e-3, 2e-6)
"""The same where all that is large is a ball, whose radius in float32 is within 5e-7."""
_DEPTH_MARGIN = 1e-3
_FARTHEST = 1e10
_BORDER_MARGIN = 2e-2


@dataclass(frozen=True)
class Projected:
    """Gaussians in cameras (C, n, .), in float64: two entries for the axes of the image, three for the conic."""

    visible: Tensor
    safe: Tensor
    radii: Tensor
    means2d: Tensor
    depths: Tensor
    conics: Tensor


def make_inputs(call: Call) -> Arguments:
    """The rank's Gaussians and cameras, the size of the image and the limits."""
    cameras = every_camera(call)
    drawn, seen = candidates(call, cameras)
    chosen = first_safe(call, seen)
    viewmats, intrinsics = (matrices[own_cameras(call)].clone() for matrices in cameras)
    return {
        **{name: tensor[chosen] for name, tensor in drawn.items()},
        "viewmats": viewmats,
        "Ks": intrinsics,
        "image_width": call.dims["wd"],
        "image_height": call.dims["ht"],
        **limits(call),
        "camera_model": "pinhole",
    }


def limits(call: Call) -> dict[str, float]:
    """What is added to the spread in the image, and between which depths Gaussians are visible."""
    usual = {"eps2d": EPS2D, "near_plane": NEAR_PLANE, "far_plane": FAR_PLANE}
    drawn = {name: float(call.setting(name, value)) for name, value in usual.items()}
    unit = _unit(call)
    planes = {"near_plane": unit * drawn["near_plane"], "far_plane": min(unit * drawn["far_plane"], _FARTHEST)}
    return drawn if unit == 1.0 else {**drawn, **planes}


def _unit(call: Call) -> float:
    """By what a regime multiplies all lengths: a power of two, so that images are what they were."""
    return float(call.setting("unit", 1.0))


def _candidates(call: Call) -> int:
    """How many Gaussians are drawn: the more cameras a regime has, the fewer are safe in all of them."""
    cameras = call.dims.get("all_cameras", 0)
    return call.dims["n"] * 5 // 4 + 256 + call.dims["n"] * cameras // 20


def candidates(call: Call, cameras: tuple[Tensor, Tensor]) -> tuple[dict[str, Tensor], Projected]:
    """Means, rotations, scales, opacities and colours of more than the n Gaussians of the rank, in all `cameras`.

    Most are at most four or five pixels wide where the scene is; one in 16 is a good part of the image.
    """
    count = _candidates(call)
    is_large = call.uniform("large", (count, 1), dtype=torch.float32) < 1 / 16
    size = torch.where(is_large, _LARGE, _SMALL_PIXELS / min(call.dims["wd"], call.dims["ht"]))
    drawn = {
        "means": call.uniform("means", (count, 3), low=-_SCENE, high=_SCENE, dtype=torch.float32),
        "quats": call.normal("quats", (count, 4), dtype=torch.float32),
        "scales": call.uniform("scales", (count, 3), low=0.1, dtype=torch.float32) * size,
        "opacities": call.uniform("opacities", (count,), low=0.1, high=0.9, dtype=torch.float32),
        "colors": call.uniform("colors", (count, call.dims["Dc"]), dtype=torch.float32),
    }
    if call.setting("lengths", None) is not None:
        drawn["quats"] = torch.nn.functional.normalize(drawn["quats"], dim=1)
    drawn["quats"] *= _factors(call, "lengths", lowest=-7.99, highest=7.99)
    drawn["scales"] *= _factors(call, "sizes", lowest=-4.0, highest=0.0)
    if call.setting("some", None) == "large":
        _enlarge_some(call, drawn)
    drawn |= {name: drawn[name] * _unit(call) for name in ("means", "scales")}
    drawn |= {name: copied(call, name, drawn[name]) for name in ("opacities", "colors")}
    if call.setting("magnitudes", None) == "spread":
        drawn |= {name: drawn[name] * _signs(call, drawn[name]) for name in ("opacities", "colors")}
    return drawn, project(call, drawn["means"], drawn["quats"], drawn["scales"], *cameras)


def _enlarge_some(call: Call, drawn: dict[str, Tensor]) -> None:
    """Make every eighth candidate a ball that is about as wide in the image as its number of pixels, or far wider.

    Balls lie up to four times as far away, so that some centres are far outside the images that they reach into.
    """
    balls = slice(None, None, 8)
    count = len(drawn["scales"][balls])
    powers = call.uniform("regime's balls", (count, 1), low=1.0, high=4.6, dtype=torch.float64)
    pixel = _DISTANCE / (0.8 * min(call.dims["wd"], call.dims["ht"]) * RADII)
    drawn["scales"][balls] = (10.0**powers * pixel).float()
    far = call.uniform("regime's distances", (count, 1), low=1.0, high=4.0, dtype=torch.float32)
    drawn["means"][balls] *= far


def _signs(call: Call, tensor: Tensor) -> Tensor:
    """1 or -1 for every element."""
    return call.integers(f"regime's signs {tensor.dim()}", tuple(tensor.shape), low=0, high=2).to(tensor.dtype) * 2 - 1


def _factors(call: Call, setting: str, *, lowest: float, highest: float) -> Tensor | float:
    """A factor per candidate, between two powers of ten, where a regime has the setting; 1 elsewhere."""
    if call.setting(setting, None) is None:
        return 1.0
    count = _candidates(call)
    powers = call.uniform(f"regime's {setting}", (count, 1), low=lowest, high=highest, dtype=torch.float64)
    return (10.0**powers).float()


def first_safe(call: Call, seen: Projected) -> Tensor:
    """Which of the candidates are the rank's Gaussians: the first n that are safe in every camera."""
    chosen = seen.safe.all(dim=0).nonzero()[: call.dims["n"], 0]
    if len(chosen) < call.dims["n"]:
        raise ValueError(f"only {len(chosen)} of {seen.safe.shape[1]} Gaussians are safe, {call.dims['n']} are needed")
    return chosen


def own_cameras(call: Call) -> slice:
    """The rank's cameras among those of all ranks."""
    return slice(call.rank * call.dims["Cl"], (call.rank + 1) * call.dims["Cl"])


def every_camera(call: Call) -> tuple[Tensor, Tensor]:
    """View matrices (W*Cl, 4, 4) and intrinsics (W*Cl, 3, 3) of all ranks' cameras, in order and in float32.

    A camera stands about `_DISTANCE` from the middle, in a random direction, and looks nearly at it. Focal lengths and
    principal points differ between cameras.
    """
    ranks, cameras = [call.at_rank(rank) for rank in range(call.world_size)], call.dims["Cl"]
    draw = torch.cat([rank.normal("cameras", (cameras, 9), dtype=torch.float32) for rank in ranks]).double()
    forward = torch.nn.functional.normalize(draw[:, :3], dim=1)
    right = torch.nn.functional.normalize(torch.linalg.cross(forward, draw[:, 3:6]), dim=1)
    viewmats = torch.eye(4, dtype=torch.float64, device=call.device).repeat(len(draw), 1, 1)
    viewmats[:, :3, :3] = torch.stack([right, torch.linalg.cross(forward, right), forward], dim=1)
    viewmats[:, :3, 3] = draw[:, 6:] * 0.05
    viewmats[:, 2, 3] += _DISTANCE
    if (which := call.setting("cameras", None)) is not None:
        place = torch.arange(len(draw), device=call.device)
        looks_away = place // cameras != owner(call) if which == "one_rank" else place % cameras != cameras - 1
        viewmats[looks_away, 2, 3] -= 4 * _DISTANCE
    viewmats[:, :3, 3] *= _unit(call)
    shifts = [rank.uniform("intrinsics", (cameras, 4), low=-1.0, dtype=torch.float32) for rank in ranks]
    jitter = torch.cat(shifts).double()
    width, height = call.dims["wd"], call.dims["ht"]
    intrinsics = torch.zeros(len(draw), 3, 3, dtype=torch.float64, device=call.device)
    intrinsics[:, 0, 0] = 0.8 * min(width, height) * (1 + 0.2 * jitter[:, 0])
    intrinsics[:, 1, 1] = 0.8 * min(width, height) * (1 + 0.2 * jitter[:, 1])
    intrinsics[:, 0, 2] = width * (0.5 + 0.1 * jitter[:, 2])
    intrinsics[:, 1, 2] = height * (0.5 + 0.1 * jitter[:, 3])
    intrinsics[:, 2, 2] = 1
    return viewmats.float(), intrinsics.float()


def project(
    call: Call, means: Tensor, quats: Tensor, scales: Tensor, viewmats: Tensor, intrinsics: Tensor
) -> Projected:
    """Gaussians (n, .) in cameras (C, 4, 4), (C, 3, 3), in float64, written out element by element."""
    view, intrinsic = viewmats.double()[..., None], intrinsics.double()[..., None]
    place = [_product(list(view[:, i, :3].unbind(1)), list(means.double().T)) + view[:, i, 3] for i in range(3)]
    depths, axes = place[2], _axes(quats.double(), scales.double(), view)
    size, (eps2d, near_plane, far_plane) = (call.dims["wd"], call.dims["ht"]), limits(call).values()
    rows, means2d = [], []
    for axis in range(2):
        focal, centre, beyond = intrinsic[:, axis, axis], intrinsic[:, axis, 2], 0.15 * size[axis]
        slope = (place[axis] / depths).clamp(-(centre + beyond) / focal, (size[axis] - centre + beyond) / focal)
        rows.append([focal / depths * (axes[axis][j] - slope * axes[2][j]) for j in range(3)])
        means2d.append(focal * place[axis] / depths + centre)
    xx, yy = _product(rows[0], rows[0]) + eps2d, _product(rows[1], rows[1]) + eps2d
    xy = _product(rows[0], rows[1])
    determinant = (xx * yy - xy * xy).clamp(min=1e-10)
    spreads = torch.stack([RADII * xx.sqrt(), RADII * yy.sqrt()], dim=-1)
    return _judged(
        Projected(
            visible=(depths > near_plane) & (depths < far_plane),
            safe=torch.minimum((depths - near_plane).abs(), (depths - far_plane).abs()) >= _DEPTH_MARGIN * _unit(call),
            radii=spreads,
            means2d=torch.stack(means2d, dim=-1),
            depths=depths,
            conics=torch.stack([yy, -xy, xx], dim=-1) / determinant[..., None],
        ),
        size=size,
        margin=_RADIUS_MARGIN if call.setting("some", None) is None else _BALL_MARGIN,
    )


def _judged(seen: Projected, *, size: tuple[int, int], margin: tuple[float, float]) -> Projected:
    """`seen` with its spreads rounded up to radii, what lies beside the image dropped, and what is close marked."""
    radii = seen.radii.ceil()
    image = torch.tensor(size, dtype=torch.float64, device=radii.device)
    above, below = seen.means2d + radii, seen.means2d - radii - image
    near_border = torch.minimum(above.abs(), below.abs()) < _BORDER_MARGIN
    # However little a spread is above 0, it is rounded up to 1.
    nearest = seen.radii.round().clamp(min=1)
    near_integer = (seen.radii - nearest).abs() < margin[0] + margin[1] * seen.radii
    return replace(
        seen,
        visible=seen.visible & ((above > 0) & (below < 0)).all(dim=-1),
        safe=seen.safe & ~(seen.visible & (near_border | near_integer).any(dim=-1)),
        radii=radii,
    )


def _product(left: Sequence[Tensor], right: Sequence[Tensor]) -> Tensor:
    """The scalar product of two vectors given by coordinate."""
    return left[0] * right[0] + left[1] * right[1] + left[2] * right[2]


def _axes(quats: Tensor, scales: Tensor, view: Tensor) -> list[list[Tensor]]:
    """Entry [i][j] (C, n): coordinate i before a camera of a Gaussian's j-th axis, one standard deviation long."""
    w, x, y, z = (quats / quats.norm(dim=1, keepdim=True).clamp(min=1e-12)).unbind(dim=1)
    columns = (
        (1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)),
        (2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)),
        (2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)),
    )
    towards = [list(view[:, i, :3].unbind(1)) for i in range(3)]
    return [[_product(towards[i], columns[j]) * scales[:, j] for j in range(3)] for i in range(3)]
