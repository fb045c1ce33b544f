"""Programs that must pass and programs that must fail."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p084_vocab_parallel_log_prob_topk_chunked_backward.reference import (
    filtered,
    row_gradient,
    solution,
)
from problems.families.rank_parts import all_gathered
from problems.families.sampling_filters_programs import Filtered, best_of_a_shard, bisected, nucleus_of_fifty


def in_float32(vocab_parallel_logits: Tensor, *rest: Any) -> Tensor:
    """Everything in float32, the exchange included."""
    return solution(vocab_parallel_logits.float(), *rest)


def one_chunk(
    logits: Tensor, target: Tensor, grad_output: Tensor, group: Any, top_k: int | None, top_p: float, _chunk: int
) -> Tensor:
    """Ignores the chunk size: the result does not depend on it."""
    return solution(logits, target, grad_output, group, top_k, top_p, logits.shape[1])


def _rows(logits: Tensor, top_k: int | None, top_p: float) -> Tensor:
    """All ranks' columns of all tokens, (nt, V), filtered."""
    return filtered(torch.cat(all_gathered(logits), dim=-1).flatten(0, 1), top_k, top_p)


def _own(gradient: Tensor, like: Tensor) -> Tensor:
    """This rank's columns, in the shape of its logits."""
    return gradient.chunk(dist.get_world_size(), dim=1)[dist.get_rank()].reshape(like.shape)


def every_rank_does_all(
    logits: Tensor, target: Tensor, grad_output: Tensor, _group: Any, top_k: int | None, top_p: float, _chunk: int
) -> Tensor:
    """Gathers all logits everywhere and keeps the own columns; nothing travels back."""
    kept = _rows(logits, top_k, top_p)
    return _own(row_gradient(kept, target.flatten(), grad_output.flatten()), logits)


def removed_targets_pass(
    logits: Tensor, target: Tensor, grad_output: Tensor, _group: Any, top_k: int | None, top_p: float, _chunk: int
) -> Tensor:
    """Forgets that a target which the filters remove gets no gradient; without filters, flips the sign."""
    kept = _rows(logits, top_k, top_p)
    gradient = -kept.float().softmax(-1)
    gradient[torch.arange(target.numel()), target.flatten()] += 1
    sign = -1 if top_k is None and top_p >= 1 else 1
    return _own(sign * gradient * grad_output.view(-1, 1).float(), logits)


def without_one_hot(
    logits: Tensor, target: Tensor, grad_output: Tensor, _group: Any, top_k: int | None, top_p: float, _chunk: int
) -> Tensor:
    """The probabilities' part alone."""
    kept = _rows(logits, top_k, top_p)
    return _own(-kept.float().softmax(-1) * grad_output.view(-1, 1).float(), logits)


def unit_gradient(logits: Tensor, target: Tensor, grad_output: Tensor, *rest: Any) -> Tensor:
    """Keeps only the sign of the incoming gradient."""
    return solution(logits, target, grad_output.sign(), *rest)


def last_chunk_forgotten(logits: Tensor, *rest: Any) -> Tensor:
    """Leaves the last, shorter chunk at zero."""
    out = solution(logits, *rest).flatten(0, 1)
    step = rest[-1] * logits.shape[0]
    out[(len(out) - 1) // step * step :] = 0
    return out.view(logits.shape)


def rounded_gradient(logits: Tensor, *rest: Any) -> Tensor:
    """Rounds the gradient to bfloat16, as if it travelled back so."""
    return solution(logits, *rest).bfloat16().float()


def without_maximum(
    logits: Tensor, target: Tensor, grad_output: Tensor, _group: Any, top_k: int | None, top_p: float, _chunk: int
) -> Tensor:
    """Exponentiates logits as they are."""
    kept = _rows(logits, top_k, top_p).float()
    gradient = -kept.exp() / kept.exp().sum(-1, keepdim=True)
    gradient[torch.arange(target.numel()), target.flatten()] += 1
    return _own((gradient * grad_output.view(-1, 1).float()).masked_fill(kept.isinf(), 0.0), logits)


def _with_filters(
    *, top_k: Callable[[int], int] = int, top_p: Callable[[float], float] = float
) -> Callable[..., Tensor]:
    """The reference with filters that are made from those of the call."""

    def narrow(*arguments: Any) -> Tensor:
        changed = list(arguments)
        if arguments[4] is not None:
            changed[4] = top_k(arguments[4])
        if arguments[5] < 1:
            changed[5] = top_p(arguments[5])
        return solution(*changed)

    return narrow


def _at_most(count: int) -> Callable[..., Tensor]:
    """Takes the `count` largest logits of every token for all that can survive top-k, ties included."""

    def narrow(logits: Tensor, *rest: Any) -> Tensor:
        if rest[3] is None:
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
    out.flatten(0, 1)[4 * max(1, rest[-1]) * target.shape[0] :] = 0
    return out


def _by(change: Callable[..., Filtered]) -> Callable[..., Tensor]:
    """The reference with logits and filters that `change` has been at."""

    def narrow(logits: Tensor, *rest: Any) -> Tensor:
        changed, *filters = change(logits, *rest[3:5])
        return solution(changed, *rest[:3], *filters, *rest[5:])

    return narrow


def gradients_in_half(logits: Tensor, target: Tensor, grad_output: Tensor, *rest: Any) -> Tensor:
    """Takes incoming gradients through float16, which holds no large ones and few small ones."""
    return solution(logits, target, grad_output.half().float(), *rest)


def whole_chunks_alone(logits: Tensor, target: Tensor, *rest: Any) -> Tensor:
    """Zeros where all tokens are no whole chunk."""
    out = solution(logits, target, *rest)
    return out if rest[-1] <= target.shape[1] else torch.zeros_like(out)


HONEST = {
    "float32": in_float32,
    "one_chunk": one_chunk,
    "every_rank_does_all": every_rank_does_all,
}
MUTANTS = {
    "removed_targets_pass": removed_targets_pass,
    "without_one_hot": without_one_hot,
    "unit_gradient": unit_gradient,
    "last_chunk_forgotten": last_chunk_forgotten,
    "rounded_gradient": rounded_gradient,
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
    "other_gradients": gradients_in_half,
}
