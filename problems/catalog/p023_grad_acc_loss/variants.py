"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p023_grad_acc_loss.reference import solution
from problems.rank_parts import added_backwards, all_gathered

Scalars = tuple[Tensor, Tensor, Tensor]


def _gradient(n: Tensor, total: Tensor, first: Tensor, second: Tensor) -> Tensor:
    return ((first.double() / total + second.double()) * n).to(first.dtype)


def _weighted(loss: Tensor, n: Tensor) -> Tensor:
    """The loss times its tokens in float64, 0 without tokens."""
    return torch.where(n == 0, 0.0, loss.double() * n)


def in_float64(
    loss: Tensor,
    local_valid_tokens: Tensor,
    global_valid_tokens: Tensor,
    grad_normalized_loss: Tensor,
    grad_loss_sum: Tensor,
) -> Scalars:
    """Wide to the end, one rounding."""
    total = _weighted(loss, local_valid_tokens)
    dist.all_reduce(total)
    gradient = _gradient(local_valid_tokens, global_valid_tokens, grad_normalized_loss, grad_loss_sum)
    return (total / global_valid_tokens).to(loss.dtype), total.to(loss.dtype), gradient


def gathered(
    loss: Tensor,
    local_valid_tokens: Tensor,
    global_valid_tokens: Tensor,
    grad_normalized_loss: Tensor,
    grad_loss_sum: Tensor,
) -> Scalars:
    """Gathers rounded sums and adds them in the run's dtype, last rank first."""
    own = _weighted(loss, local_valid_tokens).to(loss.dtype)
    total = added_backwards(all_gathered(own))
    gradient = _gradient(local_valid_tokens, global_valid_tokens, grad_normalized_loss, grad_loss_sum)
    return total / global_valid_tokens, total, gradient


def without_weights(
    loss: Tensor,
    local_valid_tokens: Tensor,
    global_valid_tokens: Tensor,
    grad_normalized_loss: Tensor,
    grad_loss_sum: Tensor,
) -> Scalars:
    """The plain mean of the losses of ranks that have tokens."""
    has_tokens = (local_valid_tokens > 0).double()
    both = torch.stack([torch.where(has_tokens > 0, loss.double(), 0.0), has_tokens])
    dist.all_reduce(both)
    mean = both[0] / dist.get_world_size()
    gradient = _gradient(local_valid_tokens, global_valid_tokens, grad_normalized_loss, grad_loss_sum)
    return mean.to(loss.dtype), (mean * global_valid_tokens).to(loss.dtype), gradient


def nan_not_cleaned(
    loss: Tensor,
    local_valid_tokens: Tensor,
    global_valid_tokens: Tensor,
    grad_normalized_loss: Tensor,
    grad_loss_sum: Tensor,
) -> Scalars:
    """Multiplies NaN or infinity by no tokens."""
    total = loss.double() * local_valid_tokens
    dist.all_reduce(total)
    gradient = _gradient(local_valid_tokens, global_valid_tokens, grad_normalized_loss, grad_loss_sum)
    return (total / global_valid_tokens).to(loss.dtype), total.to(loss.dtype), gradient


def second_gradient_left_out(
    loss: Tensor,
    local_valid_tokens: Tensor,
    global_valid_tokens: Tensor,
    grad_normalized_loss: Tensor,
    grad_loss_sum: Tensor,
) -> Scalars:
    """The gradient through the normalised loss alone."""
    del grad_loss_sum
    return solution(loss, local_valid_tokens, global_valid_tokens, grad_normalized_loss, None)


def gradient_one_over_world(
    loss: Tensor,
    local_valid_tokens: Tensor,
    global_valid_tokens: Tensor,
    grad_normalized_loss: Tensor,
    grad_loss_sum: Tensor,
) -> Scalars:
    """Takes every rank's share of the tokens for 1/W."""
    first, second, _ = solution(loss, local_valid_tokens, global_valid_tokens, grad_normalized_loss, grad_loss_sum)
    share = global_valid_tokens // dist.get_world_size()
    return first, second, _gradient(share, global_valid_tokens, grad_normalized_loss, grad_loss_sum)


def normalised_by_own_tokens(
    loss: Tensor,
    local_valid_tokens: Tensor,
    global_valid_tokens: Tensor,
    grad_normalized_loss: Tensor,
    grad_loss_sum: Tensor,
) -> Scalars:
    """Divides by W times its own tokens."""
    _, second, third = solution(loss, local_valid_tokens, global_valid_tokens, grad_normalized_loss, grad_loss_sum)
    return second / (local_valid_tokens * dist.get_world_size()).clamp(min=1), second, third


HONEST = {"float64": in_float64, "gathered": gathered}
MUTANTS = {
    "without_weights": without_weights,
    "nan_not_cleaned": nan_not_cleaned,
    "second_gradient_left_out": second_gradient_left_out,
    "gradient_one_over_world": gradient_one_over_world,
    "normalised_by_own_tokens": normalised_by_own_tokens,
}
