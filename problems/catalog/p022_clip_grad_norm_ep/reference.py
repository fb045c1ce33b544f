"""The baseline: library norms, all-reduces of scalars over each group, then a library call per list."""

import torch
import torch.distributed as dist
from torch import Tensor

Group = dist.ProcessGroup | None


def solution(
    non_ep_grad_tensors: list[Tensor],
    ep_grad_tensors: list[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    ep_size: int = 1,
    fsdp_group: Group = None,
    ep_fsdp_group: Group = None,
    ep_group: Group = None,
) -> Tensor:
    """The norm of all gradients, expert gradients divided by `ep_size`; all gradients are clipped in place."""
    ordinary = [gradient for gradient in non_ep_grad_tensors if gradient is not None]
    experts = [gradient for gradient in ep_grad_tensors if gradient is not None]
    if ep_size > 1:
        torch._foreach_mul_(experts, 1.0 / ep_size)
    total = _powers(ordinary, norm_type, (fsdp_group,)) + _powers(experts, norm_type, (ep_fsdp_group, ep_group))
    total_norm = total.pow(1.0 / norm_type)
    # Decided on the device: a factor of 1 costs a pass over the gradients, and asking the host costs a round trip.
    torch._foreach_mul_([*ordinary, *experts], torch.where(total_norm > max_norm, max_norm / total_norm, 1.0))
    return total_norm


def _powers(gradients: list[Tensor], norm_type: float, groups: tuple[Group, ...]) -> Tensor:
    """The sum of |g|^p over all elements and over the ranks of every group, float32."""
    norms = [torch.linalg.vector_norm(gradient, norm_type, dtype=torch.float32) for gradient in gradients]
    total = torch.stack(norms).pow(norm_type).sum()
    for group in groups:
        if group is not None:
            dist.all_reduce(total, group=group)
    return total
