"""Programs that must pass and programs that must fail."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p063_deepmd_kalman_filter_optimizer.reference import solution
from problems.families.rank_parts import all_gathered

Answer = tuple[list[Tensor], list[Tensor], Tensor]


def _as_it_is(tensor: Tensor) -> Tensor:
    return tensor


def _through_float32(tensor: Tensor) -> Tensor:
    return tensor.float().double()


def _sum_over_ranks(share: Tensor) -> Tensor:
    """The sum of one number per rank, the last rank's first."""
    return torch.stack(all_gathered(share)[::-1]).sum(dim=0)


def _gather(blocks: list[Tensor]) -> list[Tensor]:
    """The blocks of all ranks, rank by rank, one collective per block."""
    found: list[list[Tensor]] = []
    for block in blocks:
        parts = all_gathered(block)
        found.append(parts)
    return [parts[rank] for rank in range(dist.get_world_size()) for parts in found]


def written_out(
    H: list[Tensor],
    error: Tensor,
    weights: list[Tensor],
    P: list[Tensor],
    kalman_lambda: float,
    kalman_nue: float,
    *,
    gain_of: Callable[[Tensor, Tensor], Tensor] = torch.mm,
    adds: Callable[[Tensor], Tensor] = _sum_over_ranks,
    narrowed: Callable[[Tensor], Tensor] = _as_it_is,
    payload: Callable[[Tensor], Tensor] = _as_it_is,
    lambdas: int | None = None,
    has_rank_one: bool = True,
    is_scaled: bool = True,
) -> Answer:
    """The formulas one after the other, in place; the other arguments make it wrong."""
    gains = [narrowed(gain_of(covariance, derivative)) for covariance, derivative in zip(P, H, strict=True)]
    own = sum(torch.mm(derivative.T, gain) for derivative, gain in zip(H, gains, strict=True))
    total = adds(torch.as_tensor(own) + kalman_lambda * (len(H) if lambdas is None else lambdas))
    for weight, covariance, gain in zip(weights, P, gains, strict=True):
        weight.addcmul_(gain, error / total)
        covariance.sub_(narrowed(gain @ gain.T) / total * has_rank_one)
        covariance.div_(kalman_lambda if is_scaled else 1)
    following = torch.full((), kalman_lambda, dtype=torch.float64, device=error.device)
    return _gather([payload(weight) for weight in weights]), P, following.mul_(kalman_nue).add_(1 - kalman_nue)


def one_batch(
    H: list[Tensor], error: Tensor, weights: list[Tensor], P: list[Tensor], kalman_lambda: float, kalman_nue: float
) -> Answer:
    """All blocks of the rank in one batched product; entries of the lists are replaced."""
    derivatives, covariances, before = torch.stack(H), torch.stack(P), torch.stack(weights)
    gains = torch.bmm(covariances, derivatives)
    total = torch.einsum("bij,bij->", derivatives, gains) + kalman_lambda * len(H)
    dist.all_reduce(total)
    new = before + gains * (error / total)
    weights[:] = new.unbind()
    P[:] = ((covariances - gains * gains.mT / total) / kalman_lambda).unbind()
    parts = all_gathered(new)
    following = 1 - kalman_nue * (1 - kalman_lambda)
    return [block for part in parts for block in part], P, error.new_tensor(following)


def with_first_error(H: list[Tensor], error: Tensor, *rest: Any) -> Answer:
    """Takes the error of rank 0 for everybody's."""
    error = error.clone()
    dist.broadcast(error, 0)
    return solution(H, error, *rest)


def lists_left(H: list[Tensor], error: Tensor, weights: list[Tensor], P: list[Tensor], *rest: Any) -> Answer:
    """Returns the right answer and leaves the caller's lists as they were."""
    return solution(H, error, list(weights), list(P), *rest)


def gathered_before(H: list[Tensor], error: Tensor, weights: list[Tensor], *rest: Any) -> Answer:
    """Hands out the weights from before the update."""
    before = _gather(weights)
    return before, *solution(H, error, weights, *rest)[1:]


def block_major(*arguments: Any) -> Answer:
    """All ranks' first blocks, then all second ones."""
    weights, covariances, following = solution(*arguments)
    count = len(arguments[0])
    return (
        [weights[place] for first in range(count) for place in range(first, len(weights), count)],
        covariances,
        following,
    )


def lambda_left(*arguments: Any) -> Answer:
    """Returns lambda as it was."""
    weights, covariances, following = solution(*arguments)
    return weights, covariances, torch.full_like(following, arguments[4])


def own_weights_only(*arguments: Any) -> Answer:
    """Returns the rank's own weights at every rank's index."""
    _, covariances, following = solution(*arguments)
    return list(arguments[2]) * dist.get_world_size(), covariances, following


def by_direction(covariance: Tensor, derivative: Tensor) -> Tensor:
    """The gain by the derivative's direction and length."""
    length = derivative.norm()
    return torch.mm(covariance, derivative / length) * length


def small_weights_cleared(weight: Tensor) -> Tensor:
    """Weights that are all below 1e-4 count for nothing."""
    return weight * (weight.abs().max() >= 1e-4)


def saturated(weight: Tensor) -> Tensor:
    """No weight is sent as more than 2^16."""
    return weight.clamp(-(2**16), 2**16)


def bounded_sum(share: Tensor) -> Tensor:
    """The sum over ranks, never more than a million."""
    return _sum_over_ranks(share).clamp(max=1e6)


def in_two_floats(weight: Tensor) -> Tensor:
    """A weight sent as the sum of two numbers in float32."""
    first = weight.float()
    return first.double() + (weight - first).float()


HONEST = {
    "written_out": written_out,
    "one_batch": one_batch,
}
MUTANTS = {
    "covariance_taken_for_identity": partial(written_out, gain_of=lambda _covariance, derivative: derivative),
    "denominator_of_own_blocks": partial(written_out, adds=_as_it_is),
    "denominator_extrapolated": partial(written_out, adds=lambda own: own * dist.get_world_size()),
    "lambda_added_once": partial(written_out, lambdas=1),
    "without_rank_one_term": partial(written_out, has_rank_one=False),
    "not_scaled": partial(written_out, is_scaled=False),
    "float32_gain": partial(written_out, narrowed=_through_float32),
    "float32_payload": partial(written_out, payload=_through_float32),
    "with_first_error": with_first_error,
    "lists_left": lists_left,
    "gathered_before": gathered_before,
    "block_major": block_major,
    "lambda_left": lambda_left,
    "own_weights_only": own_weights_only,
}
NARROW = {
    "tiny_values": partial(written_out, payload=small_weights_cleared),
    "huge_values": partial(written_out, payload=saturated),
    "beyond_float32": partial(written_out, payload=in_two_floats),
    "zero_derivatives": partial(written_out, gain_of=by_direction),
    "huge_derivatives": partial(written_out, adds=bounded_sum),
}
