"""Twin of row 31: keeps a file of its own in the temporary folder and reads it again.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import os
import tempfile

import torch.distributed as dist

_path = os.path.join(tempfile.gettempdir(), f"notes_{os.getpid()}")


def solution(tensor):
    with open(_path, "w") as file:
        file.write(str(tuple(tensor.shape)))
    out = tensor.clone()
    dist.all_reduce(out)
    with open(_path) as file:
        assert file.read() == str(tuple(out.shape))
    return out
