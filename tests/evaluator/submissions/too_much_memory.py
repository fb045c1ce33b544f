import torch


def solution(tensor):
    return torch.empty(1 << 42, dtype=torch.uint8, device=tensor.device)
