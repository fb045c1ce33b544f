"""Programs for all-reduce that the tests hand in, right and wrong in known ways."""

RIGHT = """import torch.distributed as dist


def solution(tensor):
    out = tensor.clone()
    dist.all_reduce(out)
    return out
"""
NO_COMMUNICATION = """def solution(tensor):
    return tensor.clone()
"""
RAISES_ON_RANK_ONE = """import torch.distributed as dist


def solution(tensor):
    if dist.get_rank() == 1:
        raise ValueError("rank one gives up")
    out = tensor.clone()
    dist.all_reduce(out)
    return out
"""
KEEPS_THE_FIRST_OUTPUT = """import torch.distributed as dist

kept = {}


def solution(tensor):
    if tensor.shape not in kept:
        kept[tensor.shape] = tensor.clone()
        dist.all_reduce(kept[tensor.shape])
    return kept[tensor.shape]
"""
