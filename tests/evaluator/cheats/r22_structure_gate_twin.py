"""Twin of row 22: asks for the lengths.

Problem: ulysses_all_gather_variable_primitive
Mode: check
Accepted: PASSED
"""

import torch
import torch.distributed as dist


def solution(x, gather_dim, group=None):
    share = x.movedim(gather_dim, 0).contiguous()
    lengths = [None] * dist.get_world_size(group)
    dist.all_gather_object(lengths, share.shape[0], group=group)
    padded = share.new_zeros((max(lengths), *share.shape[1:]))
    padded[: share.shape[0]] = share
    parts = [torch.empty_like(padded) for _ in lengths]
    dist.all_gather(parts, padded, group=group)
    return torch.cat([part[:length] for part, length in zip(parts, lengths)]).movedim(0, gather_dim).contiguous()
