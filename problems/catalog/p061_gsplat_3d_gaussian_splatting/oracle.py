"""The expected outputs, in float64, source by source."""

import torch
from torch import Tensor

from problems.catalog.p061_gsplat_3d_gaussian_splatting.inputs import candidates, every_camera, first_safe, own_cameras
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """What the own cameras see: ids of cameras and Gaussians, radii, means, depths, conics, opacities, colours."""
    cameras, own = every_camera(call), own_cameras(call)
    # Ids are moved by the Gaussians of the ranks before the receiver, whoever sends them.
    offset = call.rank * call.dims["n"]
    parts = []
    for rank in range(call.world_size):
        drawn, seen = candidates(call.at_rank(rank), cameras)
        chosen = first_safe(call, seen)
        camera, which = seen.visible[own][:, chosen].nonzero(as_tuple=True)
        number = chosen[which]
        pairs = (part[own][camera, number] for part in (seen.radii, seen.means2d, seen.depths, seen.conics))
        parts.append((camera, which + offset, *pairs, drawn["opacities"][number], drawn["colors"][number]))
    return tuple(map(torch.cat, zip(*parts, strict=True)))
