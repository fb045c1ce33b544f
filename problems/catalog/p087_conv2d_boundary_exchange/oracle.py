"""What each rank owes: its rows of a convolution of the whole image, in float64."""

import torch
from torch import Tensor
from torch.nn import functional

from problems.catalog.p087_conv2d_boundary_exchange.inputs import make_inputs
from problems.values import Call

_BLOCK_CHANNELS = 64
"""Output channels computed at a time."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (B, C, hl, wd): rows r*hl to (r+1)*hl - 1 of the padded convolution."""
    arguments = make_inputs(call)
    image = _with_neighbours(call, arguments["padding"]).double()
    bias = arguments["bias"].double()
    blocks = [
        functional.conv2d(image, weight.double(), bias[start : start + _BLOCK_CHANNELS])
        for start, weight in zip(
            range(0, len(bias), _BLOCK_CHANNELS), arguments["weight"].split(_BLOCK_CHANNELS), strict=True
        )
    ]
    return (torch.cat(blocks, dim=1),)


def _with_neighbours(call: Call, padding: int) -> Tensor:
    """The rank's rows with `padding` rows and columns around them, zeros outside the image."""
    rows = call.dims["hl"]
    first, last = max(0, call.rank - 1), min(call.world_size - 1, call.rank + 1)
    image = torch.cat([make_inputs(call.at_rank(rank))["x"] for rank in range(first, last + 1)], dim=2)
    padded = functional.pad(image, (padding, padding, padding, padding))
    start = (call.rank - first) * rows
    return padded[:, :, start : start + rows + 2 * padding]
