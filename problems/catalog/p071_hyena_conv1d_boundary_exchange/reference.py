"""The baseline: halos point to point, then one library convolution over both chunks."""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import conv1d


def solution(x: Tensor, weight: Tensor, group: "dist.ProcessGroup | None" = None) -> Tensor:
    """The rank's early and late chunk (B, C, 2 Lc) of the causal depthwise convolution with `weight` (C, 1, Kw)."""
    halo = weight.shape[-1] - 1
    early, late = x.chunk(2, dim=-1)
    before_early, before_late = exchange_halos(early[..., -halo:], late[..., -halo:], group)
    # Both chunks go through one convolution, as two entries of the batch.
    padded = torch.cat((torch.cat((before_early, early), -1), torch.cat((before_late, late), -1)))
    return torch.cat(conv1d(padded, weight, groups=x.shape[1]).chunk(2), dim=-1)


def exchange_halos(early: Tensor, late: Tensor, group: "dist.ProcessGroup | None" = None) -> tuple[Tensor, Tensor]:
    """What stands before the early and before the late chunk, given the ends of both."""
    rank, last = dist.get_rank(group), dist.get_world_size(group) - 1
    before_early, before_late = torch.zeros_like(early).contiguous(), early.clone()
    messages = []
    if rank < last:
        before_late = late.new_empty(late.shape)
        messages.append(dist.P2POp(dist.isend, early.contiguous(), group=group, group_peer=rank + 1))
        messages.append(dist.P2POp(dist.irecv, before_late, group=group, group_peer=rank + 1))
    if rank:
        messages.append(dist.P2POp(dist.irecv, before_early, group=group, group_peer=rank - 1))
        messages.append(dist.P2POp(dist.isend, late.contiguous(), group=group, group_peer=rank - 1))
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    return before_early, before_late
