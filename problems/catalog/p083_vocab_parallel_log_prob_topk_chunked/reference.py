"""The baseline: chunk by chunk, exchange logits so that a rank owns whole rows, filter by sorting, gather results."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(
    vocab_parallel_logits: Tensor,
    target: Tensor,
    tp_group: dist.ProcessGroup | None = None,
    top_k: int | None = None,
    top_p: float = 1.0,
    chunk_size: int = 1,
) -> Tensor:
    """Filtered log-probabilities (B, S) of `target`, in float32, on every rank.

    `vocab_parallel_logits` (B, S, Vl) are columns R*Vl to (R+1)*Vl of the vocabulary on rank R. Chunks are of
    B * chunk_size consecutive tokens, batch row after batch row.

    Raises:
        ValueError: the tokens of a chunk do not divide among the ranks.
    """
    step = target.shape[0] * max(1, chunk_size)
    chunks = zip(vocab_parallel_logits.flatten(0, 1).split(step), target.flatten().split(step), strict=True)
    parts = [_chunk(logits, targets, tp_group, top_k, top_p) for logits, targets in chunks]
    return torch.cat(parts).view(target.shape)


def _chunk(
    logits: Tensor, target: Tensor, tp_group: dist.ProcessGroup | None, top_k: int | None, top_p: float
) -> Tensor:
    """Log-probabilities (m,) of one chunk on every rank, from its logits (m, Vl)."""
    rows = filtered(whole_rows(logits, tp_group), top_k, top_p)
    own = len(rows)
    rank = dist.get_rank(tp_group)
    own_target = target[rank * own : (rank + 1) * own]
    log_probs = torch.log_softmax(rows.float(), dim=-1).gather(1, own_target[:, None]).squeeze(1)
    out = log_probs.new_empty(len(target))
    dist.all_gather_into_tensor(out, log_probs, group=tp_group)
    return out


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
