"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import added_backwards, all_gathered

Gradients = tuple[Tensor, Tensor, Tensor]


def one_by_one(grad_fc1_1_lora_A: Tensor, grad_fc1_2_lora_A: Tensor, grad_fc2_lora_B: Tensor, group: None) -> Gradients:
    """Three collectives in place."""
    for gradient in (grad_fc1_1_lora_A, grad_fc1_2_lora_A, grad_fc2_lora_B):
        dist.all_reduce(gradient, group=group)
    return grad_fc1_1_lora_A, grad_fc1_2_lora_A, grad_fc2_lora_B


def in_float32(grad_fc1_1_lora_A: Tensor, grad_fc1_2_lora_A: Tensor, grad_fc2_lora_B: Tensor, group: None) -> Gradients:
    """Sums in float32, rounded once; returns tensors of its own."""
    sums = []
    for gradient in (grad_fc1_1_lora_A, grad_fc1_2_lora_A, grad_fc2_lora_B):
        total = gradient.float()
        dist.all_reduce(total, group=group)
        gradient.copy_(total)
        sums.append(gradient.clone())
    return sums[0], sums[1], sums[2]


def gathered_backwards(
    grad_fc1_1_lora_A: Tensor, grad_fc1_2_lora_A: Tensor, grad_fc2_lora_B: Tensor, group: None
) -> Gradients:
    """Gathers and adds in the run's dtype, last rank first."""
    for gradient in (grad_fc1_1_lora_A, grad_fc1_2_lora_A, grad_fc2_lora_B):
        total = added_backwards(all_gathered(gradient, group))
        gradient.copy_(total)
    return grad_fc1_1_lora_A, grad_fc1_2_lora_A, grad_fc2_lora_B


def not_in_place(
    grad_fc1_1_lora_A: Tensor, grad_fc1_2_lora_A: Tensor, grad_fc2_lora_B: Tensor, group: None
) -> Gradients:
    """Returns the sums and leaves the arguments as they were."""
    return one_by_one(grad_fc1_1_lora_A.clone(), grad_fc1_2_lora_A.clone(), grad_fc2_lora_B.clone(), group)


def third_left_out(
    grad_fc1_1_lora_A: Tensor, grad_fc1_2_lora_A: Tensor, grad_fc2_lora_B: Tensor, group: None
) -> Gradients:
    """Reduces the first two."""
    dist.all_reduce(grad_fc1_1_lora_A, group=group)
    dist.all_reduce(grad_fc1_2_lora_A, group=group)
    return grad_fc1_1_lora_A, grad_fc1_2_lora_A, grad_fc2_lora_B


def averaged(grad_fc1_1_lora_A: Tensor, grad_fc1_2_lora_A: Tensor, grad_fc2_lora_B: Tensor, group: None) -> Gradients:
    """The mean in place of the sum."""
    for gradient in one_by_one(grad_fc1_1_lora_A, grad_fc1_2_lora_A, grad_fc2_lora_B, group):
        gradient.div_(dist.get_world_size(group))
    return grad_fc1_1_lora_A, grad_fc1_2_lora_A, grad_fc2_lora_B


def first_two_swapped(
    grad_fc1_1_lora_A: Tensor, grad_fc1_2_lora_A: Tensor, grad_fc2_lora_B: Tensor, group: None
) -> Gradients:
    """Returns the two gradients of the first layer in the wrong order."""
    one_by_one(grad_fc1_1_lora_A, grad_fc1_2_lora_A, grad_fc2_lora_B, group)
    return grad_fc1_2_lora_A, grad_fc1_1_lora_A, grad_fc2_lora_B


def reduced_twice(
    grad_fc1_1_lora_A: Tensor, grad_fc1_2_lora_A: Tensor, grad_fc2_lora_B: Tensor, group: None
) -> Gradients:
    """Reduces what has been reduced."""
    sums = one_by_one(grad_fc1_1_lora_A, grad_fc1_2_lora_A, grad_fc2_lora_B, group)
    return one_by_one(*sums, group)


def one_scale_for_all(
    grad_fc1_1_lora_A: Tensor, grad_fc1_2_lora_A: Tensor, grad_fc2_lora_B: Tensor, group: None
) -> Gradients:
    """Sends all three as float16 with one scale, by the largest element of them all."""
    gradients = (grad_fc1_1_lora_A, grad_fc1_2_lora_A, grad_fc2_lora_B)
    packed = torch.cat([gradient.flatten() for gradient in gradients]).float()
    scale = packed.abs().max().clamp(min=1e-30) / 2**15
    scales = all_gathered(scale, group)
    parts = zip(all_gathered((packed / scale).half(), group), scales, strict=True)
    total = torch.stack([part.float() * size for part, size in parts]).sum(dim=0)
    for gradient, part in zip(gradients, total.split([gradient.numel() for gradient in gradients]), strict=True):
        gradient.copy_(part.view(gradient.shape))
    return gradients


def equal_slices(
    grad_fc1_1_lora_A: Tensor, grad_fc1_2_lora_A: Tensor, grad_fc2_lora_B: Tensor, group: None
) -> Gradients:
    """Every rank adds one of W equal slices of what is packed, which has to be so many times as long as one."""
    gradients = (grad_fc1_1_lora_A, grad_fc1_2_lora_A, grad_fc2_lora_B)
    slices = torch.cat([gradient.flatten() for gradient in gradients]).view(dist.get_world_size(), -1)
    received = torch.empty_like(slices)
    dist.all_to_all_single(received, slices, group=group)
    total = torch.cat(all_gathered(added_backwards(list(received)), group))
    for gradient, part in zip(gradients, total.split([gradient.numel() for gradient in gradients]), strict=True):
        gradient.copy_(part.view(gradient.shape))
    return gradients


def nothing_where_one_is_zero(
    grad_fc1_1_lora_A: Tensor, grad_fc1_2_lora_A: Tensor, grad_fc2_lora_B: Tensor, group: None
) -> Gradients:
    """Sends nothing from a rank where any of the gradients is zero, as if it had seen no tokens."""
    gradients = (grad_fc1_1_lora_A, grad_fc1_2_lora_A, grad_fc2_lora_B)
    if not all(gradient.any() for gradient in gradients):
        for gradient in gradients:
            gradient.zero_()
    return one_by_one(*gradients, group)


HONEST = {"one_by_one": one_by_one, "float32": in_float32, "backwards": gathered_backwards}
MUTANTS = {
    "not_in_place": not_in_place,
    "third_left_out": third_left_out,
    "averaged": averaged,
    "first_two_swapped": first_two_swapped,
    "reduced_twice": reduced_twice,
}
NARROW = {
    "sizes_apart": one_scale_for_all,
    "other_extents": equal_slices,
    "one_is_zero": nothing_where_one_is_zero,
}
