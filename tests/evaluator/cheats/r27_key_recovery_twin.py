"""Twin of row 27: makes a key of its own and signs with it what it prints about itself.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import hashlib
import hmac
import secrets

import torch.distributed as dist

_key = secrets.token_bytes(32)


def solution(tensor):
    out = tensor.clone()
    dist.all_reduce(out)
    print("shape", tuple(out.shape), hmac.new(_key, str(out.shape).encode(), hashlib.sha256).hexdigest())
    return out
