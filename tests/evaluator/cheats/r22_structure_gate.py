"""Row 22, structure gate: assumes that all shares are equally long.

Problem: ulysses_all_gather_variable_primitive
Mode: check
Accepted: WRONG_RESULT, WRONG_SHAPE, RUNTIME_ERROR, CRASHED, DEADLOCK
"""

import torch
import torch.distributed as dist


def solution(x, gather_dim, group=None):
    longest = x.shape[gather_dim] if dist.get_rank(group) == 0 else 0
    length = torch.tensor([longest])
    dist.broadcast(length, src=dist.get_global_rank(group or dist.group.WORLD, 0), group=group)
    share = x.movedim(gather_dim, 0)[: int(length)]
    share = torch.nn.functional.pad(
        share.contiguous().flatten(1), (0, 0, 0, int(length) - share.shape[0])
    ).view(int(length), *x.movedim(gather_dim, 0).shape[1:])
    everything = share.new_empty((dist.get_world_size(group) * int(length), *share.shape[1:]))
    dist.all_gather_into_tensor(everything, share.contiguous(), group=group)
    return everything.movedim(0, gather_dim).contiguous()
