import torch.distributed as dist


def solution(tensor):
    out = tensor.clone()
    if dist.get_rank() == 0:
        dist.all_reduce(out, async_op=True).wait()
    return out
