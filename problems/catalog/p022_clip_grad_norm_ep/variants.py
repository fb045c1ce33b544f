"""Programs that must pass and programs that must fail."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p022_clip_grad_norm_ep.reference import solution
from problems.families.rank_parts import all_gathered


def _squares(gradients: list[Tensor], divisor: float = 1.0) -> Tensor:
    """The sum of the squares of this rank's gradients, each divided by `divisor`; float32."""
    return torch.stack([(gradient.float() / divisor).square().sum() for gradient in gradients]).sum()


def _clip(gradients: list[Tensor], factor: Tensor | float) -> None:
    for gradient in gradients:
        gradient.copy_((gradient.float() * factor).to(gradient.dtype))


def _powers(gradients: list[Tensor], p: float, divisor: float = 1.0) -> Tensor:
    """The sum of |g / divisor|^p over this rank's gradients; float32."""
    return torch.stack([(gradient.float() / divisor).abs().pow(p).sum() for gradient in gradients]).sum()


def one_message(
    non_ep_grad_tensors: list[Tensor], ep_grad_tensors: list[Tensor], max_norm: float, *settings: Any
) -> Tensor:
    """One all-reduce of the sum of both parts over all ranks, and one factor for both scalings."""
    p, ep_size = settings[:2]
    total = _powers(non_ep_grad_tensors, p) + _powers(ep_grad_tensors, p, ep_size)
    dist.all_reduce(total)
    total_norm = total.pow(1 / p)
    factor = torch.where(total_norm > max_norm, max_norm / total_norm, 1.0)
    _clip(non_ep_grad_tensors, factor)
    _clip(ep_grad_tensors, factor / ep_size)
    return total_norm


def smaller_factor(
    non_ep_grad_tensors: list[Tensor], ep_grad_tensors: list[Tensor], max_norm: float, *settings: Any
) -> Tensor:
    """Takes the smaller of 1 and the quotient for the factor, which is no number where both norms are zero."""
    total_norm = one_message(non_ep_grad_tensors, ep_grad_tensors, torch.inf, *settings)
    _clip([*non_ep_grad_tensors, *ep_grad_tensors], (max_norm / total_norm).clamp(max=1))
    return total_norm


def epsilon_in_the_norm(
    non_ep_grad_tensors: list[Tensor], ep_grad_tensors: list[Tensor], max_norm: float, *settings: Any
) -> Tensor:
    """Adds a millionth of a millionth to the norm before it divides by it."""
    total_norm = one_message(non_ep_grad_tensors, ep_grad_tensors, torch.inf, *settings)
    _clip([*non_ep_grad_tensors, *ep_grad_tensors], (max_norm / (total_norm + 1e-12)).clamp(max=1))
    return total_norm


def no_group_for_the_world(
    non_ep_grad_tensors: list[Tensor], ep_grad_tensors: list[Tensor], max_norm: float, *settings: Any
) -> Tensor:
    """Reduces the expert part over both groups without asking for None, which a collective takes for the world."""
    norm_type, ep_size, fsdp_group, ep_fsdp_group, ep_group = settings
    return solution(
        non_ep_grad_tensors,
        ep_grad_tensors,
        max_norm,
        norm_type,
        ep_size,
        fsdp_group,
        ep_fsdp_group,
        ep_group or dist.group.WORLD,
    )


def always_clips(
    non_ep_grad_tensors: list[Tensor], ep_grad_tensors: list[Tensor], max_norm: float, *settings: Any
) -> Tensor:
    """Scales to the limit whether the norm exceeds it or not."""
    total_norm = one_message(non_ep_grad_tensors, ep_grad_tensors, max_norm, *settings)
    _clip([*non_ep_grad_tensors, *ep_grad_tensors], (max_norm / total_norm).clamp(min=1))
    return total_norm


def saturates(
    non_ep_grad_tensors: list[Tensor], ep_grad_tensors: list[Tensor], max_norm: float, *settings: Any
) -> Tensor:
    """Counts no element for more than 2^16."""
    for gradient in (*non_ep_grad_tensors, *ep_grad_tensors):
        gradient.clamp_(-(2**16), 2**16)
    return one_message(non_ep_grad_tensors, ep_grad_tensors, max_norm, *settings)


def in_float64(
    non_ep_grad_tensors: list[Tensor], ep_grad_tensors: list[Tensor], max_norm: float, *settings: Any
) -> Tensor:
    """Gathers local sums, adds them in float64, last rank first; rounds the factor to the gradients' dtype."""
    p, ep_size = settings[:2]
    own = _powers(non_ep_grad_tensors, p) + _powers(ep_grad_tensors, p, ep_size)
    sums = all_gathered(own)
    total_norm = torch.stack(sums[::-1]).double().sum().pow(1 / p)
    factor = torch.where(total_norm > max_norm, max_norm / total_norm, 1.0).to(non_ep_grad_tensors[0].dtype)
    for gradient in non_ep_grad_tensors:
        gradient.mul_(factor)
    for gradient in ep_grad_tensors:
        gradient.mul_(1 / ep_size).mul_(factor)
    return total_norm.float()


def experts_not_divided(
    non_ep_grad_tensors: list[Tensor],
    ep_grad_tensors: list[Tensor],
    max_norm: float,
    norm_type: float,
    ep_size: int,
    *groups: Any,
) -> Tensor:
    """Leaves out the division by the expert-parallel size."""
    del ep_size
    return solution(non_ep_grad_tensors, ep_grad_tensors, max_norm, norm_type, 1, *groups)


def divided_after_the_norm(
    non_ep_grad_tensors: list[Tensor], ep_grad_tensors: list[Tensor], max_norm: float, *settings: Any
) -> Tensor:
    """Counts undivided expert gradients in the norm and divides them afterwards."""
    total_norm = experts_not_divided(non_ep_grad_tensors, ep_grad_tensors, max_norm, *settings)
    _clip(ep_grad_tensors, 1 / settings[1])
    return total_norm


def experts_left_out(
    non_ep_grad_tensors: list[Tensor], ep_grad_tensors: list[Tensor], max_norm: float, *settings: Any
) -> Tensor:
    """Counts the ordinary gradients alone in the norm."""
    total = _squares(non_ep_grad_tensors)
    dist.all_reduce(total)
    total_norm = total.sqrt()
    _clip(non_ep_grad_tensors, max_norm / total_norm)
    _clip(ep_grad_tensors, max_norm / total_norm / settings[1])
    return total_norm


def experts_not_clipped(
    non_ep_grad_tensors: list[Tensor], ep_grad_tensors: list[Tensor], max_norm: float, *settings: Any
) -> Tensor:
    """The right norm, but expert gradients are only divided."""
    before = [gradient.clone() for gradient in ep_grad_tensors]
    total_norm = one_message(non_ep_grad_tensors, ep_grad_tensors, max_norm, *settings)
    for gradient, old in zip(ep_grad_tensors, before, strict=True):
        gradient.copy_(old / settings[1])
    return total_norm


def experts_over_one_group(
    non_ep_grad_tensors: list[Tensor], ep_grad_tensors: list[Tensor], max_norm: float, *settings: Any
) -> Tensor:
    """Reduces the expert part over its replicas only and forgets the other experts."""
    norm_type, ep_size, fsdp_group, ep_fsdp_group, _ = settings
    return solution(non_ep_grad_tensors, ep_grad_tensors, max_norm, norm_type, ep_size, fsdp_group, ep_fsdp_group, None)


def experts_counted_twice(
    non_ep_grad_tensors: list[Tensor], ep_grad_tensors: list[Tensor], max_norm: float, *settings: Any
) -> Tensor:
    """Reduces the expert part over all ranks and once more over the expert group."""
    norm_type, ep_size, fsdp_group, _, ep_group = settings
    return solution(
        non_ep_grad_tensors, ep_grad_tensors, max_norm, norm_type, ep_size, fsdp_group, fsdp_group, ep_group
    )


HONEST = {"one_message": one_message, "float64": in_float64}
MUTANTS = {
    "experts_not_divided": experts_not_divided,
    "divided_after_the_norm": divided_after_the_norm,
    "experts_left_out": experts_left_out,
    "experts_not_clipped": experts_not_clipped,
    "experts_over_one_group": experts_over_one_group,
    "experts_counted_twice": experts_counted_twice,
}
NARROW = {
    "below_the_limit": always_clips,
    "huge_values": saturates,
    "near_the_limit": always_clips,
    "least_gradients": epsilon_in_the_norm,
    "nothing_to_clip": smaller_factor,
    "no_expert_groups": no_group_for_the_world,
}
