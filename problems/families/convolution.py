"""Convolution in float64 as products of matrices, which GPUs do at full speed where their convolutions do not."""

from itertools import product
from math import prod

import torch
from torch import Tensor


def correlate(image: Tensor, weight: Tensor) -> Tensor:
    """What `weight` (Co, Ci, *taps) makes of `image` (Ci, *extents), unpadded: (Co, *kept), extents - taps + 1 each.

    With positions numbered in row-major order, a tap reaches its pixels by a shift that is the same for all of them. A
    product with the shifted pixels adds what the tap gives, also at the ends of rows, where windows leave the image.
    Those are cut off.
    """
    extents, taps = image.shape[1:], weight.shape[2:]
    pixels = image.flatten(1).T.contiguous().double()
    strides = [prod(extents[axis + 1 :]) for axis in range(len(extents))]
    shifts = [sum(map(int.__mul__, place, strides)) for place in product(*map(range, taps))]
    count = len(pixels) - shifts[-1]
    out = torch.zeros(len(pixels), len(weight), dtype=torch.float64, device=image.device)
    for shift, mixing in zip(shifts, weight.flatten(2).permute(2, 1, 0).contiguous().double(), strict=True):
        out[:count].addmm_(pixels[shift : shift + count], mixing)
    kept = (slice(extent - tap + 1) for extent, tap in zip(extents, taps, strict=True))
    return out.T.view(-1, *extents)[:, *kept]
