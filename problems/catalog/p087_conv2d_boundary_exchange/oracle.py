"""The expected outputs: its rows of a convolution of the whole image, in float64."""

import torch
from torch import Tensor
from torch.nn import functional

from problems.catalog.p087_conv2d_boundary_exchange.inputs import make_inputs, strip
from problems.families import convolution
from problems.inputs.values import Arguments, Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (B, C, hl, wd): rows r*hl to (r+1)*hl - 1 of the padded convolution."""
    arguments = make_inputs(call)
    bias = arguments["bias"].double().view(-1, 1, 1)
    images, step = _with_neighbours(call, arguments), arguments["stride"]
    whole = [convolution.correlate(image, arguments["weight"])[:, ::step, ::step] for image in images]
    return (torch.stack(whole) + bias,)


def _with_neighbours(call: Call, own: Arguments) -> Tensor:
    """The rank's rows with `padding` rows and columns around them, zeros outside the image."""
    rows, padding = own["x"].shape[2], own["padding"]
    first, last = max(0, call.rank - 1), min(call.world_size - 1, call.rank + 1)
    strips = [own["x"] if rank == call.rank else strip(call.at_rank(rank)) for rank in range(first, last + 1)]
    padded = functional.pad(torch.cat(strips, dim=2), (padding, padding, padding, padding))
    start = (call.rank - first) * rows
    return padded[:, :, start : start + rows + 2 * padding]
