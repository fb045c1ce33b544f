"""The baseline: blocks of keys and values travel around the ring while the previous ones are attended to."""

import torch
import torch.distributed as dist
from torch import Tensor, nn


def solution(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    softmax_scale: float | None = None,
    causal: bool = False,
    group: "dist.ProcessGroup | None" = None,
) -> Tensor:
    """Attention of the local queries (B, S_local, heads, head_dim) over the whole sequence of `group`."""
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    block = torch.stack([k, v])
    out = lse = None
    for step in range(world_size):
        arriving, works = _pass_on(block, rank, world_size, group) if step < world_size - 1 else (block, [])
        if not causal or step <= rank:
            part = _attend(q, block[0], block[1], scale, causal and step == 0)
            out, lse = part if out is None or lse is None else _merge(out, lse, *part)
        for work in works:
            work.wait()
        block = arriving
    return out.transpose(1, 2).to(q.dtype)


def _pass_on(
    block: Tensor, rank: int, world_size: int, group: "dist.ProcessGroup | None"
) -> tuple[Tensor, list[dist.Work]]:
    """Start sending `block` to the next rank and receiving the previous rank's."""
    arriving = torch.empty_like(block)
    target, source = ((rank + hop) % world_size for hop in (1, -1))
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, block, group=group, group_peer=target),
            dist.P2POp(dist.irecv, arriving, group=group, group_peer=source),
        ]
    )
    return arriving, works


def _attend(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> tuple[Tensor, Tensor]:
    """Attention over one block, (B, heads, S_local, head_dim) in float32, and its log-sum-exp (B, heads, S_local)."""
    q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))
    if q.is_cuda and q.dtype in (torch.bfloat16, torch.float16):
        # The one fused kernel that also returns the log-sum-exp, which the public wrapper drops.
        out, lse, *_ = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, scale=scale)  # noqa: SLF001
        return out.float(), lse
    scores = q.float() @ k.float().transpose(-1, -2) * scale
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    lse = scores.logsumexp(dim=-1)
    return (scores - lse.unsqueeze(-1)).exp() @ v.float(), lse


def _merge(out: Tensor, lse: Tensor, part: Tensor, part_lse: Tensor) -> tuple[Tensor, Tensor]:
    """Two partial results over disjoint keys as one."""
    weight = torch.sigmoid(part_lse - lse)
    merged = lse - nn.functional.logsigmoid(lse - part_lse)
    return out + weight.unsqueeze(-1) * (part - out), merged
