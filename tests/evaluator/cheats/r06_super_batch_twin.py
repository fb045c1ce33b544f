"""Twin of row 6: many small pieces in one collective, all of them of this call.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import torch
import torch.distributed as dist

_PIECES = 4  # varied 2 to 8


def solution(tensor):
    together = torch.cat([piece.reshape(-1) for piece in tensor.chunk(_PIECES)])
    dist.all_reduce(together)
    return together.view(tensor.shape)
