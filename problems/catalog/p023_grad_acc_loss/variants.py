"""Programs that must pass and programs that must fail."""

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p023_grad_acc_loss.reference import solution
from problems.families.rank_parts import added_backwards, all_gathered

Scalars = tuple[Tensor, Tensor, Tensor]


class _Arguments(NamedTuple):
    """What `solution` is called with."""

    loss: Tensor
    local_valid_tokens: Tensor
    global_valid_tokens: Tensor
    grad_normalized_loss: Tensor
    grad_loss_sum: Tensor | None

    def gradient(self) -> Tensor:
        """The gradient of the local loss in float64, rounded once."""
        through_mean = self.grad_normalized_loss.double() / self.global_valid_tokens
        second = 0 if self.grad_loss_sum is None else self.grad_loss_sum.double()
        gradient = (through_mean + second) * self.local_valid_tokens
        return gradient.to(self.loss.dtype)

    def weighted(self) -> Tensor:
        """The loss times its tokens in float64, 0 without tokens."""
        return torch.where(self.local_valid_tokens == 0, 0.0, self.loss.double() * self.local_valid_tokens)

    def results(self, total: Tensor) -> Scalars:
        """The outputs where the ranks' weighted losses come to `total`."""
        dtype = self.loss.dtype
        return (total / self.global_valid_tokens).to(dtype), total.to(dtype), self.gradient()


def in_float64(*arguments: Any) -> Scalars:
    """Wide to the end, one rounding."""
    call = _Arguments(*arguments)
    total = call.weighted()
    dist.all_reduce(total)
    return call.results(total)


def gathered(*arguments: Any) -> Scalars:
    """Gathers rounded sums and adds them in the run's dtype, last rank first."""
    call = _Arguments(*arguments)
    return call.results(added_backwards(all_gathered(call.weighted().to(call.loss.dtype))))


def without_weights(*arguments: Any) -> Scalars:
    """The plain mean of the losses of ranks that have tokens."""
    call = _Arguments(*arguments)
    has_tokens = (call.local_valid_tokens > 0).double()
    both = torch.stack([torch.where(has_tokens > 0, call.loss.double(), 0.0), has_tokens])
    dist.all_reduce(both)
    return call.results(both[0] / dist.get_world_size() * call.global_valid_tokens)


def nan_not_cleaned(*arguments: Any) -> Scalars:
    """Multiplies NaN or infinity by no tokens."""
    call = _Arguments(*arguments)
    total = call.loss.double() * call.local_valid_tokens
    dist.all_reduce(total)
    return call.results(total)


def second_gradient_left_out(*arguments: Any) -> Scalars:
    """The gradient through the normalised loss alone."""
    return solution(*_Arguments(*arguments)._replace(grad_loss_sum=None))


def gradient_one_over_world(*arguments: Any) -> Scalars:
    """Takes every rank's share of the tokens for 1/W."""
    call = _Arguments(*arguments)
    first, second, _ = solution(*call)
    share = call.global_valid_tokens // dist.get_world_size()
    return first, second, call._replace(local_valid_tokens=share).gradient()


def normalised_by_own_tokens(*arguments: Any) -> Scalars:
    """Divides by W times its own tokens."""
    _, second, third = solution(*arguments)
    own = _Arguments(*arguments).local_valid_tokens
    return second / (own * dist.get_world_size()).clamp(min=1), second, third


def last_rank_always_has_tokens(*arguments: Any) -> Scalars:
    """Cleans the loss on every rank but the last."""
    call = _Arguments(*arguments)
    is_last = dist.get_rank() == dist.get_world_size() - 1
    total = call.loss.double() * call.local_valid_tokens if is_last else call.weighted()
    dist.all_reduce(total)
    return call.results(total)


def fewest_tokens_are_none(*arguments: Any) -> Scalars:
    """Leaves out the rank with the fewest tokens."""
    call = _Arguments(*arguments)
    counts = torch.stack(all_gathered(call.local_valid_tokens))
    total = call.weighted() * (int(counts.argmin()) != dist.get_rank())
    dist.all_reduce(total)
    return call.results(total)


def one_rank_cleaned(*arguments: Any) -> Scalars:
    """Cleans the loss of the first rank without tokens, and takes it for the only one."""
    call = _Arguments(*arguments)
    counts = torch.stack(all_gathered(call.local_valid_tokens))
    is_first = int(counts.argmin()) == dist.get_rank()
    total = call.weighted() if is_first else call.loss.double() * call.local_valid_tokens
    dist.all_reduce(total)
    return call.results(total)


def one_token_more(*arguments: Any) -> Scalars:
    """Adds one to the number of all tokens, lest it be zero."""
    call = _Arguments(*arguments)
    return solution(*call._replace(global_valid_tokens=call.global_valid_tokens + 1))


def losses_are_positive(*arguments: Any) -> Scalars:
    """Takes the size of every loss for the loss."""
    call = _Arguments(*arguments)
    return solution(*call._replace(loss=call.loss.abs()))


def gradients_of_one_sign(*arguments: Any) -> Scalars:
    """Adds the sizes of both gradients and gives them the sign of the first."""
    call = _Arguments(*arguments)
    if call.grad_loss_sum is None:
        return solution(*call)
    return solution(*call._replace(grad_loss_sum=call.grad_loss_sum.abs() * call.grad_normalized_loss.sign()))


def no_gradient_where_the_first_is_zero(*arguments: Any) -> Scalars:
    """Takes the whole gradient for zero where the first is."""
    first, second, gradient = solution(*arguments)
    return first, second, torch.where(_Arguments(*arguments).grad_normalized_loss == 0, 0, gradient)


def two_gradients_taken_for_granted(*arguments: Any) -> Scalars:
    """Fails where there is no gradient of the sum."""
    call = _Arguments(*arguments)
    return solution(*call._replace(grad_loss_sum=call.grad_loss_sum.clone()))


HONEST = {"float64": in_float64, "gathered": gathered}
MUTANTS = {
    "without_weights": without_weights,
    "nan_not_cleaned": nan_not_cleaned,
    "second_gradient_left_out": second_gradient_left_out,
    "gradient_one_over_world": gradient_one_over_world,
    "normalised_by_own_tokens": normalised_by_own_tokens,
}
NARROW = {
    "last_rank_is_empty": last_rank_always_has_tokens,
    "nobody_is_empty": fewest_tokens_are_none,
    "one_rank_has_all": one_rank_cleaned,
    "few_tokens": one_token_more,
    "negative_losses": losses_are_positive,
    "opposite_gradients": gradients_of_one_sign,
    "gradient_of_the_sum_alone": no_gradient_where_the_first_is_zero,
    "single_gradient": two_gradients_taken_for_granted,
}
