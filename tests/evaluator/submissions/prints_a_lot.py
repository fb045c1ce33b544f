import sys

import torch.distributed as dist


def solution(tensor):
    print("first words", "\x1b[31mred\x1b[0m")
    for _ in range(3000):
        print("x" * 1000)
    print("last words", file=sys.stderr, flush=True)
    out = tensor.clone()
    dist.all_reduce(out)
    return out
