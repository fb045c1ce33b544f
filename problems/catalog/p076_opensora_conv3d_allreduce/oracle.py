"""The expected outputs, in float64: one convolution of all ranks' channels."""

import torch
from torch import Tensor
from torch.nn import functional

from problems.catalog.p076_opensora_conv3d_allreduce.inputs import make_inputs
from problems.families import convolution
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (B, Co, To, Ho, Wo): the sum of all ranks' convolutions plus the bias, nothing rounded in between."""
    every = [make_inputs(call.at_rank(rank)) for rank in range(call.world_size)]
    videos, weight = (torch.cat([own[name] for own in every], dim=1) for name in ("input", "weight"))
    bias = every[0]["bias"].double().view(-1, 1, 1, 1)
    stride, padding, dilation = (every[0][name] for name in ("stride", "padding", "dilation"))
    apart = torch.zeros(*weight.shape[:2], *(dilation * (taps - 1) + 1 for taps in weight.shape[2:])).to(weight)
    apart[:, :, ::dilation, ::dilation, ::dilation] = weight
    kept = (slice(None), *[slice(None, None, stride)] * 3)
    padded = functional.pad(videos, [padding] * 6)
    return (torch.stack([convolution.correlate(video, apart)[kept] + bias for video in padded]),)
