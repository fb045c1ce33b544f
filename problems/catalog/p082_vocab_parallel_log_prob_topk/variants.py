"""Programs that must pass and programs that must fail."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p082_vocab_parallel_log_prob_topk.reference import filtered, solution, whole_rows
from problems.families.rank_parts import all_gathered
from problems.families.sampling_filters_programs import Filtered, best_of_a_shard, bisected, nucleus_of_fifty

Group = dist.ProcessGroup | None


def _gathered(shard: Tensor) -> Tensor:
    """The shards of all ranks side by side along the last dimension."""
    return torch.cat(all_gathered(shard), dim=-1)


def _picked(logits: Tensor, target: Tensor) -> Tensor:
    """Log-probability of the targets under `logits` (B, S, V) in float32."""
    return logits.float().log_softmax(-1).gather(-1, target[..., None]).squeeze(-1)


def filtered_in_float32(
    vocab_parallel_logits: Tensor, target: Tensor, tp_group: Group = None, top_k: int | None = None, top_p: float = 1.0
) -> Tensor:
    """Everything in float32, the exchange included."""
    return solution(vocab_parallel_logits.float(), target, tp_group, top_k, top_p)


def every_rank_does_all(
    vocab_parallel_logits: Tensor, target: Tensor, tp_group: Group = None, top_k: int | None = None, top_p: float = 1.0
) -> Tensor:
    """Gathers all logits everywhere; each rank filters every token."""
    logits = _gathered(vocab_parallel_logits)
    flat = filtered(logits.flatten(0, 1), top_k, top_p)
    return _picked(flat.view_as(logits), target)


def candidates_only(
    vocab_parallel_logits: Tensor, target: Tensor, tp_group: Group = None, top_k: int | None = None, top_p: float = 1.0
) -> Tensor:
    """Sends each rank's largest logits and the target's in place of the vocabulary; without top-k as the reference."""
    if top_k is None:
        return solution(vocab_parallel_logits, target, tp_group, top_k, top_p)
    wanted = _target_logits(vocab_parallel_logits.float(), target)
    # Twice k leaves room for some ties at the k-th logit, and for no more.
    count = min(2 * top_k, vocab_parallel_logits.shape[-1])
    candidates = _gathered(vocab_parallel_logits.topk(count, dim=-1).values).float()
    survivors = filtered(candidates.flatten(0, 1), top_k, top_p)
    least = survivors.masked_fill(survivors.isinf(), torch.inf).amin(-1).view_as(wanted)
    return (wanted - survivors.logsumexp(-1).view_as(wanted)).masked_fill(wanted < least, -torch.inf)


def _target_logits(shard: Tensor, target: Tensor) -> Tensor:
    """The logit of every target (B, S), wherever it lives."""
    width = shard.shape[-1]
    local = target - dist.get_rank() * width
    own = shard.gather(-1, local.clamp(0, width - 1)[..., None]).squeeze(-1)
    wanted = own.masked_fill((local < 0) | (local >= width), 0.0)
    dist.all_reduce(wanted)
    return wanted


def normalised_locally(
    vocab_parallel_logits: Tensor, target: Tensor, tp_group: Group = None, top_k: int | None = None, top_p: float = 1.0
) -> Tensor:
    """Normalises over the own shard's logits alone after filtering whole rows."""
    rows = whole_rows(vocab_parallel_logits, tp_group)
    own = len(rows)
    width, rank = vocab_parallel_logits.shape[-1], dist.get_rank(tp_group)
    kept = filtered(rows, top_k, top_p).float()
    norm = kept[:, rank * width : (rank + 1) * width].logsumexp(-1)
    mine = target.flatten()[rank * own : (rank + 1) * own]
    return _gathered(kept.gather(1, mine[:, None]).squeeze(1) - norm).view(target.shape)


def minus_infinity(
    vocab_parallel_logits: Tensor, target: Tensor, tp_group: Group = None, top_k: int | None = None, top_p: float = 1.0
) -> Tensor:
    """Calls every target filtered."""
    return torch.full(target.shape, -torch.inf, device=target.device)


def without_maximum(
    vocab_parallel_logits: Tensor, target: Tensor, tp_group: Group = None, top_k: int | None = None, top_p: float = 1.0
) -> Tensor:
    """Exponentiates logits as they are."""
    del tp_group
    kept = filtered(_gathered(vocab_parallel_logits).flatten(0, 1), top_k, top_p).float()
    mass = kept.exp().sum(-1).log().view(target.shape)
    return kept.gather(-1, target.reshape(-1, 1)).view(target.shape) - mass


def _with_filters(
    *, top_k: Callable[[int], int] = int, top_p: Callable[[float], float] = float
) -> Callable[..., Tensor]:
    """The reference with filters that are made from those of the call."""

    def narrow(*arguments: Any) -> Tensor:
        changed = list(arguments)
        if arguments[3] is not None:
            changed[3] = top_k(arguments[3])
        if arguments[4] < 1:
            changed[4] = top_p(arguments[4])
        return solution(*changed)

    return narrow


def _at_most(count: int) -> Callable[..., Tensor]:
    """Takes the `count` largest logits of every token for all that can survive top-k, ties included."""

    def narrow(logits: Tensor, *rest: Any) -> Tensor:
        if rest[2] is None:
            return solution(logits, *rest)
        whole = torch.cat(all_gathered(logits), dim=-1)
        bound = whole.sort(dim=-1, descending=True, stable=True).indices[..., count:]
        lowered = whole.scatter(-1, bound, -torch.inf)
        own = slice(dist.get_rank() * logits.shape[-1], (dist.get_rank() + 1) * logits.shape[-1])
        return solution(lowered[..., own].contiguous(), *rest)

    return narrow


def _by(change: Callable[..., Filtered]) -> Callable[..., Tensor]:
    """The reference with logits and filters that `change` has been at."""

    def narrow(logits: Tensor, *rest: Any) -> Tensor:
        changed, *filters = change(logits, *rest[2:4])
        return solution(changed, *rest[:2], *filters, *rest[4:])

    return narrow


HONEST = {
    "float32": filtered_in_float32,
    "every_rank_does_all": every_rank_does_all,
}
MUTANTS = {
    "normalised_locally": normalised_locally,
    "minus_infinity": minus_infinity,
}
NARROW = {
    "other_k": _with_filters(top_k=lambda _: 10),
    "other_p": _with_filters(top_p=lambda _: 0.9),
    "equal_leaders": _at_most(15),
    "flat_rows": candidates_only,
    "large_logits": without_maximum,
    "wide_nucleus": _by(nucleus_of_fifty),
    "equal_nucleus": _at_most(20),
    "nucleus_of_a_shard": _by(best_of_a_shard),
    "low_words": _by(bisected),
    "low_logits": without_maximum,
}
