"""Programs that must pass and programs that must fail."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p080_dinov2_distributed_sinkhorn_knopp.reference import solution
from problems.families.rank_parts import all_gathered


def in_float64(logits: Tensor, *rest: Any) -> Tensor:
    """Everything in float64, rounded once."""
    return solution(logits.double(), *rest).float()


def by_scalings(
    logits: Tensor, temperature: float, _count: Tensor, rounds: int, *_rest: Any, wire: torch.dtype = torch.float32
) -> Tensor:
    """Keeps the weights and updates two vectors; `wire` is the dtype in which sums travel."""
    weights = ((logits - logits.max()) / temperature).exp()
    # A common factor has to be common to all ranks.
    peak = logits.max()
    dist.all_reduce(peak, op=dist.ReduceOp.MAX)
    weights *= ((logits.max() - peak) / temperature).exp()
    samples = weights.new_ones(len(weights))
    prototypes = weights.new_ones(weights.shape[1])
    for _ in range(rounds):
        masses = (samples @ weights).to(wire)
        dist.all_reduce(masses)
        prototypes = 1 / masses.float()
        samples = 1 / (weights @ prototypes)
    return weights * prototypes * samples[:, None]


def gathered(logits: Tensor, temperature: float, _count: Tensor, rounds: int, *_rest: Any) -> Tensor:
    """Gathers all logits and normalises them in one place, in logarithms."""
    parts = all_gathered(logits)
    scores = torch.cat(parts).double() / temperature
    for _ in range(rounds):
        scores = scores - scores.logsumexp(0, keepdim=True)
        scores = scores - scores.logsumexp(1, keepdim=True)
    return scores.exp().float().chunk(len(parts))[dist.get_rank()].contiguous()


def softmax(logits: Tensor, temperature: float, *_rest: Any) -> Tensor:
    """Normalises every sample by itself."""
    return (logits / temperature).softmax(dim=1)


def one_round_less(logits: Tensor, temperature: float, count: Tensor, rounds: int, *rest: Any) -> Tensor:
    """Stops a round early."""
    return solution(logits, temperature, count, rounds - 1, *rest)


def one_round_more(logits: Tensor, temperature: float, count: Tensor, rounds: int, *rest: Any) -> Tensor:
    """Goes on for a round."""
    return solution(logits, temperature, count, rounds + 1, *rest)


def sums_in_bfloat16(*arguments: Any) -> Tensor:
    """Lets the sums over samples travel in bfloat16."""
    return by_scalings(*arguments, wire=torch.bfloat16)


def prototypes_last(logits: Tensor, temperature: float, count: Tensor, rounds: int, *rest: Any) -> Tensor:
    """Ends with the prototypes' normalisation in place of the samples'."""
    q = solution(logits, temperature, count, rounds, *rest)
    masses = q.sum(dim=0)
    dist.all_reduce(masses)
    return q / masses * (dist.get_world_size() * len(q) / q.shape[1])


def nothing_where_nothing_counts(logits: Tensor, temperature: float, count: Tensor, *rest: Any) -> Tensor:
    """Zeros on a rank whose own count is 0."""
    return solution(logits, temperature, count, *rest) * (count > 0)


def whole_tiles(logits: Tensor, *rest: Any) -> Tensor:
    """Zeros for the samples that fill no tile of 8."""
    q = solution(logits, *rest)
    q[len(q) // 8 * 8 :] = 0
    return q


def masses_above_zero(logits: Tensor, *rest: Any) -> Tensor:
    """Takes sums over samples for 1e-30 where they are less, so as not to divide by zero."""
    temperature, _, rounds, *_ = rest
    q = (logits / temperature).exp()
    total = q.sum()
    dist.all_reduce(total)
    q /= total
    for _ in range(rounds):
        masses = q.sum(dim=0)
        dist.all_reduce(masses)
        q /= masses.clamp(min=1e-30) * q.shape[1]
        q /= q.sum(dim=1, keepdim=True) * (len(q) * dist.get_world_size())
    return q / q.sum(dim=1, keepdim=True)


HONEST = {"float64": in_float64, "by_scalings": by_scalings, "gathered": gathered}
MUTANTS = {
    "softmax": softmax,
    "one_round_less": one_round_less,
    "one_round_more": one_round_more,
    "sums_in_bfloat16": sums_in_bfloat16,
    "prototypes_last": prototypes_last,
}
NARROW = {"one_counts_nothing": nothing_where_nothing_counts, "odd_sizes": whole_tiles, "one_far": masses_above_zero}
