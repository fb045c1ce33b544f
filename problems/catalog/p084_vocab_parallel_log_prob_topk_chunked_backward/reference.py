"""The baseline: chunk by chunk, whole rows by an all-to-all, the gradient by its formula, and an all-to-all back."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(
    vocab_parallel_logits: Tensor,
    target: Tensor,
    grad_output: Tensor,
    tp_group: dist.ProcessGroup | None = None,
    top_k: int | None = None,
    top_p: float = 1.0,
    chunk_size: int = 1,
) -> Tensor:
    """Gradient (B, S, Vl) of the filtered log-probabilities with respect to this rank's logits, in float32.

    Chunks are of B * chunk_size consecutive tokens, batch row after batch row.

    Raises:
        ValueError: the tokens of a chunk do not divide among the ranks.
    """
    step = target.shape[0] * max(1, chunk_size)
    tokens = (vocab_parallel_logits.flatten(0, 1), target.flatten(), grad_output.flatten())
    chunks = zip(*(tensor.split(step) for tensor in tokens), strict=True)
    parts = [_chunk(logits, targets, gradients, tp_group, top_k, top_p) for logits, targets, gradients in chunks]
    return torch.cat(parts).view(vocab_parallel_logits.shape)


def _chunk(
    logits: Tensor,
    target: Tensor,
    grad_output: Tensor,
    tp_group: dist.ProcessGroup | None,
    top_k: int | None,
    top_p: float,
) -> Tensor:
    """Gradient (m, Vl) of one chunk."""
    rows = filtered(whole_rows(logits, tp_group), top_k, top_p)
    own = slice(dist.get_rank(tp_group) * len(rows), (dist.get_rank(tp_group) + 1) * len(rows))
    return own_columns(row_gradient(rows, target[own], grad_output[own]), tp_group)


def row_gradient(kept: Tensor, target: Tensor, grad_output: Tensor) -> Tensor:
    """(one-hot - softmax) * grad_output in float32 (n, V), 0 where `kept` is minus infinity."""
    gradient = -kept.float().softmax(dim=-1)
    gradient[torch.arange(len(target), device=target.device), target] += 1
    gradient *= grad_output[:, None].float()
    return gradient.masked_fill_(kept.isinf(), 0.0)


def whole_rows(logits: Tensor, tp_group: dist.ProcessGroup | None) -> Tensor:
    """All V columns of this rank's share of the chunk's tokens, (m/W, V)."""
    world_size = dist.get_world_size(tp_group)
    tokens, shard = logits.shape
    if tokens % world_size:
        raise ValueError(f"a chunk of {tokens} tokens does not divide among {world_size} ranks")
    sent = logits.reshape(world_size, tokens // world_size, shard).contiguous()
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent, group=tp_group)
    return received.transpose(0, 1).reshape(tokens // world_size, world_size * shard)


def own_columns(rows: Tensor, tp_group: dist.ProcessGroup | None) -> Tensor:
    """This rank's columns (m, Vl) of all ranks' rows (m/W, V)."""
    world_size = dist.get_world_size(tp_group)
    tokens, vocabulary = rows.shape
    sent = rows.view(tokens, world_size, vocabulary // world_size).transpose(0, 1).contiguous()
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent, group=tp_group)
    return received.flatten(0, 1)


def filtered(logits: Tensor, top_k: int | None, top_p: float | None) -> Tensor:
    """`logits` (n, V) with minus infinity where top-k or top-p removes an entry."""
    count = top_k or 0
    if top_p is None or top_p >= 1:
        return keep_largest(logits, count) if count > 0 else logits
    ascending, order = logits.sort(dim=-1)
    if count > 0:
        ascending = keep_largest(ascending, count)
    is_kept = ascending.softmax(dim=-1).cumsum(dim=-1) > 1 - top_p
    is_kept[:, -1] = True
    ascending = ascending.masked_fill(~is_kept, -torch.inf)
    return torch.empty_like(logits).scatter_(1, order, ascending)


def keep_largest(logits: Tensor, count: int) -> Tensor:
    """Minus infinity for everything below the `count`-th largest entry of its row; ties stay."""
    threshold = logits.topk(min(count, logits.shape[-1]), dim=-1).values[:, -1:]
    return logits.masked_fill(logits < threshold, -torch.inf)
