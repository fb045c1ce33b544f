"""The baseline: two rings, keys and values in the run's dtype and their gradients in float32, then an all-reduce."""

import torch
import torch.distributed as dist
from torch import Tensor

_SCORES = 1 << 30
"""Scores held at a time, 4 GiB in float32: those of all heads at `large` would take 32 GiB, several times."""


def solution(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    softmax_lse: Tensor,
    softmax_scale: "float | None" = None,
    causal: bool = False,
    cp_group: "dist.ProcessGroup | None" = None,
    dp_group: "dist.ProcessGroup | None" = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients dq, dk, dv (B, S_local, heads, head_dim) of the rank's shards, averaged over `dp_group`."""
    rank, count = dist.get_rank(cp_group), dist.get_world_size(cp_group)
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    delta = (dout.float() * out.float()).sum(dim=-1).transpose(1, 2).flatten(0, 1).unsqueeze(-1)
    lse = softmax_lse.flatten(0, 1).unsqueeze(-1)
    queries, from_out = _heads(q), _heads(dout)
    block = torch.stack([_heads(k), _heads(v)])
    dq = torch.zeros_like(queries, dtype=torch.float32)
    gradients = torch.zeros_like(block, dtype=torch.float32)
    for step in range(count):
        arriving, works = _pass_on(block, rank, count, cp_group) if step < count - 1 else (block, [])
        if not causal or step <= rank:
            width = max(1, _SCORES // q.shape[1] ** 2)
            for heads in (slice(first, first + width) for first in range(0, len(queries), width)):
                p = (_product(queries[heads], block[0, heads].mT) * scale - lse[heads]).exp()
                if causal and step == 0:
                    p = p.tril()
                ds = (p * (_product(from_out[heads], block[1, heads].mT) - delta[heads]) * scale).to(q.dtype)
                dq[heads] += _product(ds, block[0, heads])
                gradients[0, heads] += _product(ds.mT, queries[heads])
                gradients[1, heads] += _product(p.to(q.dtype).mT, from_out[heads])
        for work in works:
            work.wait()
        block = arriving
        if count > 1:
            gradients, works = _pass_on(gradients, rank, count, cp_group)
            for work in works:
                work.wait()
    results = torch.stack([dq, *gradients]).to(q.dtype)
    if dp_group is not None and dist.get_world_size(dp_group) > 1:
        dist.all_reduce(results, group=dp_group)
        results /= dist.get_world_size(dp_group)
    return tuple(part.view(q.shape[0], q.shape[2], *part.shape[1:]).transpose(1, 2) for part in results)


def _heads(tensor: Tensor) -> Tensor:
    """(B, S, heads, head_dim) as (B*heads, S, head_dim)."""
    return tensor.transpose(1, 2).flatten(0, 1)


def _product(left: Tensor, right: Tensor) -> Tensor:
    """A batched product summed and returned in float32; on tensor cores where there are any."""
    if left.is_cuda and left.dtype in (torch.bfloat16, torch.float16):
        return torch.bmm(left, right, out_dtype=torch.float32)
    return left.float() @ right.float()


def _pass_on(
    block: Tensor, rank: int, count: int, group: "dist.ProcessGroup | None"
) -> "tuple[Tensor, list[dist.Work]]":
    """Start sending `block` to the next rank and receiving the previous rank's."""
    arriving = torch.empty_like(block)
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, block, group=group, group_peer=(rank + 1) % count),
            dist.P2POp(dist.irecv, arriving, group=group, group_peer=(rank - 1) % count),
        ]
    )
    return arriving, works
