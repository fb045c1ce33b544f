"""What each rank owes, in float64, source by source."""

import torch
from torch import Tensor

from problems.catalog.p061_gsplat_3d_gaussian_splatting.inputs import make_inputs, project
from problems.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """What the own cameras see: ids of cameras and Gaussians, radii, means, depths, conics, opacities, colours."""
    own = make_inputs(call)
    # Ids are moved by the Gaussians of the ranks before the receiver, whoever sends them.
    offset = call.rank * call.dims["n"]
    parts = []
    for rank in range(call.world_size):
        peer = own if rank == call.rank else make_inputs(call.at_rank(rank))
        seen = project(call, peer["means"], peer["quats"], peer["scales"], own["viewmats"], own["Ks"])
        camera, which = seen.visible.nonzero(as_tuple=True)
        pairs = (part[camera, which] for part in (seen.radii, seen.means2d, seen.depths, seen.conics))
        parts.append((camera, which + offset, *pairs, peer["opacities"][which], peer["colors"][which]))
    return tuple(map(torch.cat, zip(*parts, strict=True)))
