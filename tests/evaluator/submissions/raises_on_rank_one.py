import torch.distributed as dist


def solution(tensor):
    if dist.get_rank() == 1:
        raise ValueError("no plan for this shape")
    out = tensor.clone()
    dist.all_reduce(out)
    return out
