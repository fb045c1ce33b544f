"""Waits for its peer in vain, while a thread of its own goes on and might still change that."""

import threading

import torch
import torch.distributed as dist


def _go_on():
    while True:
        sum(range(10**5))


def solution(tensor):
    threading.Thread(target=_go_on, daemon=True).start()
    out = tensor.clone()
    if dist.get_rank() == 0:
        dist.all_reduce(out)
    else:
        dist.recv(torch.empty(1, device=tensor.device), src=0, tag=7)
    return out
