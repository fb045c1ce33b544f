"""A deadlock in a process that lets every signal through, as it is after a library has reset the mask."""

import signal

import torch.distributed as dist

signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())


def solution(tensor):
    out = tensor.clone()
    if dist.get_rank() == 0:
        dist.all_reduce(out)
    return out
