"""The expected outputs: one rounding of an exact product, or none."""

import torch
from torch import Tensor

from problems.catalog.p020_blocked_fp8_dequantize.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (W, M, N): this rank's chunk of every rank, scaled by its sender's scales."""
    chunks = []
    for rank in range(call.world_size):
        sent = make_inputs(call.at_rank(rank))
        values, scales = sent["local_y"][call.rank], sent["local_s"][call.rank]
        product = values.double().view(-1, sent["block_size"]) * scales.double().view(-1, 1)
        chunks.append(product.view(values.shape).float())
    return (torch.stack(chunks),)
