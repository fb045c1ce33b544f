"""Programs that must pass and programs that must fail."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p083_vocab_parallel_log_prob_topk_chunked.reference import filtered, solution
from problems.families.rank_parts import all_gathered
from problems.families.sampling_filters_programs import Filtered, best_of_a_shard, bisected, nucleus_of_fifty


def _gathered(shard: Tensor) -> Tensor:
    """The shards of all ranks side by side along the last dimension."""
    return torch.cat(all_gathered(shard), dim=-1)


def _picked(logits: Tensor, target: Tensor) -> Tensor:
    """Log-probability of the targets under `logits` (nt, V) in float32, as (B, S)."""
    return logits.float().log_softmax(-1).gather(-1, target.reshape(-1, 1)).view(target.shape)


def filtered_in_float32(vocab_parallel_logits: Tensor, target: Tensor, *rest: Any) -> Tensor:
    """Everything in float32, the exchange included."""
    return solution(vocab_parallel_logits.float(), target, *rest)


def one_chunk(
    vocab_parallel_logits: Tensor, target: Tensor, tp_group: Any, top_k: int | None, top_p: float, _chunk_size: int
) -> Tensor:
    """Ignores the chunk size: the result does not depend on it."""
    return solution(vocab_parallel_logits, target, tp_group, top_k, top_p, target.shape[1])


def every_rank_does_all(
    vocab_parallel_logits: Tensor, target: Tensor, _group: Any, top_k: int | None, top_p: float, chunk_size: int
) -> Tensor:
    """Gathers the logits of some positions of every row at a time; each rank filters every token of them."""
    step = max(1, chunk_size)
    parts = [
        _picked(filtered(_gathered(logits).flatten(0, 1), top_k, top_p), targets)
        for logits, targets in zip(vocab_parallel_logits.split(step, 1), target.split(step, 1), strict=True)
    ]
    return torch.cat(parts, dim=1)


def first_chunk_only(
    vocab_parallel_logits: Tensor, target: Tensor, tp_group: Any, top_k: int | None, top_p: float, chunk_size: int
) -> Tensor:
    """Hands the first chunk's results out for all chunks."""
    out = solution(vocab_parallel_logits, target, tp_group, top_k, top_p, chunk_size).flatten()
    step = chunk_size * target.shape[0]
    return out[:step].repeat(-(-len(out) // step))[: len(out)].view(target.shape)


def last_chunk_forgotten(
    vocab_parallel_logits: Tensor, target: Tensor, tp_group: Any, top_k: int | None, top_p: float, chunk_size: int
) -> Tensor:
    """Leaves the last, shorter chunk at zero."""
    out = solution(vocab_parallel_logits, target, tp_group, top_k, top_p, chunk_size).flatten()
    step = chunk_size * target.shape[0]
    out[(len(out) - 1) // step * step :] = 0
    return out.view(target.shape)


def unfiltered(
    vocab_parallel_logits: Tensor, target: Tensor, tp_group: Any, top_k: int | None, top_p: float, chunk_size: int
) -> Tensor:
    """Drops one filter, and both where there is only one; invents top-k where there is none."""
    kept = (top_k, 1.0) if top_k is not None and top_p < 1 else (None if top_k or top_p < 1 else 10, 1.0)
    return solution(vocab_parallel_logits, target, tp_group, *kept, chunk_size)


def minus_infinity(_logits: Tensor, target: Tensor, *_rest: Any) -> Tensor:
    """Calls every target filtered."""
    return torch.full(target.shape, -torch.inf, device=target.device)


def without_maximum(
    vocab_parallel_logits: Tensor, target: Tensor, _group: Any, top_k: int | None, top_p: float, _chunk_size: int
) -> Tensor:
    """Exponentiates logits as they are."""
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


def four_chunks_at_most(logits: Tensor, target: Tensor, *rest: Any) -> Tensor:
    """Leaves what comes after the fourth chunk at zero."""
    out = solution(logits, target, *rest)
    out.view(-1)[4 * max(1, rest[-1]) * target.shape[0] :] = 0
    return out


def _by(change: Callable[..., Filtered]) -> Callable[..., Tensor]:
    """The reference with logits and filters that `change` has been at."""

    def narrow(logits: Tensor, *rest: Any) -> Tensor:
        changed, *filters = change(logits, *rest[2:4])
        return solution(changed, *rest[:2], *filters, *rest[4:])

    return narrow


def whole_chunks_alone(logits: Tensor, target: Tensor, *rest: Any) -> Tensor:
    """Zeros where all tokens are no whole chunk."""
    out = solution(logits, target, *rest)
    return out if rest[-1] <= target.shape[1] else torch.zeros_like(out)


HONEST = {
    "float32": filtered_in_float32,
    "one_chunk": one_chunk,
    "every_rank_does_all": every_rank_does_all,
}
MUTANTS = {
    "first_chunk_only": first_chunk_only,
    "last_chunk_forgotten": last_chunk_forgotten,
    "unfiltered": unfiltered,
    "minus_infinity": minus_infinity,
}
NARROW = {
    "other_k": _with_filters(top_k=lambda _: 10),
    "other_p": _with_filters(top_p=lambda _: 0.9),
    "equal_leaders": _at_most(15),
    "flat_rows": _at_most(20),
    "many_equal_words": _at_most(1024),
    "large_logits": without_maximum,
    "wide_nucleus": _by(nucleus_of_fifty),
    "equal_nucleus": _at_most(20),
    "nucleus_of_a_shard": _by(best_of_a_shard),
    "low_words": _by(bisected),
    "low_logits": without_maximum,
    "small_chunks": four_chunks_at_most,
    "least_chunks": four_chunks_at_most,
    "whole_chunk": whole_chunks_alone,
}
