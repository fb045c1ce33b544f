"""The baseline: library norms, one all-reduce of a scalar, then a library call per tensor."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(
    grad_tensors: list[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    fsdp_group: "dist.ProcessGroup | None" = None,
) -> Tensor:
    """The `norm_type`-norm of all ranks' gradients before clipping, float32; the gradients are scaled in place."""
    gradients = [gradient for gradient in grad_tensors if gradient is not None]
    norms = [torch.linalg.vector_norm(gradient, norm_type, dtype=torch.float32) for gradient in gradients]
    total = torch.stack(norms).pow(norm_type).sum()
    if fsdp_group is not None:
        dist.all_reduce(total, group=fsdp_group)
    total_norm = total.pow(1.0 / norm_type)
    # Decided on the device: a factor of 1 costs a pass over the gradients, and asking the host costs a round trip.
    torch._foreach_mul_(gradients, torch.where(total_norm > max_norm, max_norm / total_norm, 1.0))
    return total_norm
