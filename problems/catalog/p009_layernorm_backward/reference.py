"""The baseline: local column sums, then one library collective for both vectors."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(X_hat: Tensor, dY: Tensor) -> tuple[Tensor, Tensor]:
    """d_gamma (N,), the column sums of dY * X_hat (M, N) over all ranks' rows, and d_beta (N,), those of dY."""
    sums = torch.stack(((dY * X_hat).sum(dim=0), dY.sum(dim=0)))
    dist.all_reduce(sums)
    return sums[0], sums[1]
