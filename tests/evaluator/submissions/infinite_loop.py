import torch.distributed as dist


def solution(tensor):
    out = tensor.clone()
    while dist.get_rank() == 1:
        out += 1
    dist.all_reduce(out)
    return out
