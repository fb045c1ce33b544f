import torch.distributed as dist


def solution(tensor):
    out = tensor.clone()
    while dist.get_rank() == 1:
        pass
    dist.all_reduce(out, async_op=True).wait()
    return out
