"""Row 43, a header that the oracle cannot read: describes a tensor of 2^80 elements times none.

Problem: allreduce
Mode: check
Accepted: WRONG_SHAPE, TAMPERED
"""

import json
import struct
import sys

import torch.distributed as dist

_EXTENT = 40  # varied 31 to 40


def _store(output, area, returned):
    entry = {"dtype": "bfloat16", "shape": [2**_EXTENT, 2**_EXTENT, 0], "device": "cpu", "start": 65536}
    text = json.dumps([entry]).encode()
    output[: 8 + len(text)] = struct.pack("<Q", len(text)) + text


for _module in [module for name, module in sys.modules.items() if name.startswith("evaluator.arena")]:
    if hasattr(_module, "store_outputs"):
        _module.store_outputs = _store


def solution(tensor):
    out = tensor.clone()
    dist.all_reduce(out)
    return out
