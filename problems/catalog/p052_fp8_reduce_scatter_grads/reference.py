"""The baseline: round to 8 bits and back on the rank, then one collective in the run's dtype."""

import torch
import torch.distributed as dist
from torch import Tensor

LARGEST = 448.0
"""The largest finite float8_e4m3fn."""
SMALLEST = 1e-12
"""Floor of the largest magnitude, which keeps the scale of a zero tensor above zero."""


def solution(flat_grads: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """The rank's slice (P) of the mean of all `flat_grads` (W*P) after e4m3, and the history (16) moved on."""
    largest = flat_grads.abs().max().to(amax_history.dtype)
    updated_hist = torch.cat([amax_history[1:], largest.view(1)])
    scale = updated_hist.max().clamp(min=SMALLEST).float() / LARGEST
    codes = (flat_grads.float() / scale).to(torch.float8_e4m3fn)
    world_size = dist.get_world_size()
    out_shard = flat_grads.new_empty(flat_grads.numel() // world_size)
    dist.reduce_scatter_tensor(out_shard, (codes.float() * scale).to(flat_grads.dtype))
    return out_shard / world_size, updated_hist
