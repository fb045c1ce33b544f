"""Twin of row 26: prints words like a verdict's while it works.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import json

import torch.distributed as dist


def solution(tensor):
    out = tensor.clone()
    dist.all_reduce(out)
    print(json.dumps({"verdict": "FAILED", "note": "a word of the author's own"}), flush=True)
    return out
