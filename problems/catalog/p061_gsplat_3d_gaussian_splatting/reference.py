"""The baseline: gather the cameras, project into all of them, pack what is visible, and exchange the rows by owner."""

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor


class Projection(NamedTuple):
    """All cameras by all Gaussians (C, n, .): radii are zero where a Gaussian is not visible."""

    radii: Tensor
    means2d: Tensor
    depths: Tensor
    conics: Tensor


class Limits(NamedTuple):
    """The size of the image, the blur, and the nearest and farthest depth."""

    width: int
    height: int
    eps2d: float
    near_plane: float
    far_plane: float


def solution(
    means: Tensor,
    quats: Tensor,
    scales: Tensor,
    opacities: Tensor,
    colors: Tensor,
    viewmats: Tensor,
    Ks: Tensor,
    image_width: int,
    image_height: int,
    eps2d: float = 0.3,
    near_plane: float = 0.01,
    far_plane: float = 1e10,
    camera_model: str = "pinhole",
) -> tuple[Tensor, ...]:
    """The rows that this rank's cameras see: ids of both, radii, means, depths, conics, opacities and colours."""
    if camera_model != "pinhole":
        raise ValueError(f"camera_model is {camera_model!r}; only 'pinhole' is known")
    limits = Limits(image_width, image_height, eps2d, near_plane, far_plane)
    projected = project(means, covariances(quats, scales), gather(viewmats), gather(Ks), limits)
    camera, gaussian = (projected.radii > 0).all(dim=-1).nonzero(as_tuple=True)
    owner = camera // len(viewmats)
    integers = torch.cat(
        [torch.stack([camera - owner * len(viewmats), gaussian], dim=1).int(), projected.radii[camera, gaussian]], dim=1
    )
    rows = [part[camera, gaussian] for part in (projected.means2d, projected.depths[..., None], projected.conics)]
    floats = torch.cat([*rows, opacities[gaussian, None], colors[gaussian]], dim=1)
    integers, floats = exchange(owner, integers, floats)
    ids, radii = integers.split([2, 2], dim=1)
    means2d, depth, conics, opacity, color = floats.split([2, 1, 3, 1, colors.shape[1]], dim=1)
    first = gaussians_before(len(means), means.device)
    return ids[:, 0].long(), ids[:, 1].long() + first, radii, means2d, depth[:, 0], conics, opacity[:, 0], color


def gather(cameras: Tensor) -> Tensor:
    """The matrices of all ranks' cameras, in rank order."""
    everyone = cameras.new_empty((dist.get_world_size() * len(cameras), *cameras.shape[1:]))
    dist.all_gather_into_tensor(everyone.view(-1), cameras.view(-1))
    return everyone


def gaussians_before(own: int, device: torch.device) -> int:
    """How many Gaussians the ranks before this one hold."""
    counts = torch.zeros(dist.get_world_size(), dtype=torch.int64, device=device)
    dist.all_gather_into_tensor(counts, torch.tensor([own], device=device))
    return int(counts[: dist.get_rank()].sum())


def exchange(owner: Tensor, integers: Tensor, floats: Tensor) -> tuple[Tensor, Tensor]:
    """Send every row to the owner of its camera; rows are sorted by owner already."""
    send = torch.bincount(owner, minlength=dist.get_world_size())
    receive = torch.empty_like(send)
    dist.all_to_all_single(receive, send)
    # The library needs both lists of sizes on the host: one wait for both.
    send_sizes, receive_sizes = torch.stack((send, receive)).tolist()
    arrived = []
    for rows in (integers, floats):
        arrived.append(rows.new_empty((sum(receive_sizes), rows.shape[1])))
        dist.all_to_all_single(arrived[-1], rows, receive_sizes, send_sizes)
    return arrived[0], arrived[1]


def covariances(quats: Tensor, scales: Tensor) -> Tensor:
    """The covariance (n, 3, 3) of each Gaussian."""
    w, x, y, z = torch.nn.functional.normalize(quats, dim=-1).unbind(dim=-1)
    entries = (
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    )  # fmt: skip
    axes = torch.stack(entries, dim=-1).unflatten(-1, (3, 3)) * scales[:, None, :]
    return axes @ axes.mT


def project(means: Tensor, covariance: Tensor, viewmats: Tensor, intrinsics: Tensor, limits: Limits) -> Projection:
    """All Gaussians (n, 3), (n, 3, 3) in all cameras (C, 4, 4), (C, 3, 3)."""
    rotation, shift = viewmats[:, None, :3, :3], viewmats[:, None, :3, 3]
    seen = (rotation @ means[None, :, :, None])[..., 0] + shift
    seen_covariance = rotation @ covariance @ rotation.mT
    jacobian = jacobians(seen, intrinsics[:, None], limits)
    flat = jacobian @ seen_covariance @ jacobian.mT
    flat = flat + limits.eps2d * torch.eye(2, dtype=flat.dtype, device=flat.device)
    xx, xy, yy = flat[..., 0, 0], (flat[..., 0, 1] + flat[..., 1, 0]) / 2, flat[..., 1, 1]
    determinant = (xx * yy - flat[..., 0, 1] * flat[..., 1, 0]).clamp(min=1e-10)
    depths = seen[..., 2]
    means2d = (intrinsics[:, None, :2] @ seen[..., None])[..., 0] / depths[..., None]
    radii = (3.33 * torch.stack([xx, yy], dim=-1).sqrt()).ceil()
    size = torch.tensor([limits.width, limits.height], dtype=means2d.dtype, device=means2d.device)
    visible = (depths > limits.near_plane) & (depths < limits.far_plane)
    visible &= ((means2d + radii > 0) & (means2d - radii < size)).all(dim=-1)
    conics = torch.stack([yy, -xy, xx], dim=-1) / determinant[..., None]
    return Projection((radii * visible[..., None]).int(), means2d, depths, conics)


def jacobians(seen: Tensor, intrinsics: Tensor, limits: Limits) -> Tensor:
    """Derivatives (C, n, 2, 3) of the pinhole projection; slopes are held to a little more than the image shows."""
    size = torch.tensor([limits.width, limits.height], dtype=seen.dtype, device=seen.device)
    focal, centre = intrinsics.diagonal(dim1=-2, dim2=-1)[..., :2], intrinsics[..., :2, 2]
    margin = 0.3 * (0.5 * size / focal)
    depth = seen[..., 2:]
    slopes = (seen[..., :2] / depth).clamp(-(centre / focal + margin), (size - centre) / focal + margin)
    jacobian = seen.new_zeros((*seen.shape[:-1], 2, 3))
    jacobian[..., :2] = torch.diag_embed(focal / depth)
    jacobian[..., 2] = -focal * slopes / depth
    return jacobian
