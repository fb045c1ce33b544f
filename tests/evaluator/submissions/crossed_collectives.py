import torch.distributed as dist


def solution(tensor):
    out = tensor.clone()
    peer = 1 - dist.get_rank()
    dist.recv(out, src=peer)
    dist.send(out, dst=peer)
    return out
