"""The baseline: projection, a ring of keys and values over the context group, projection, sum over the tensor group."""

import torch
import torch.distributed as dist
from torch import Tensor, nn

Group = dist.ProcessGroup | None


def solution(
    hidden_states: Tensor,
    w_qkv: Tensor,
    w_o: Tensor,
    num_heads: int,
    softmax_scale: float | None = None,
    causal: bool = False,
    tp_group: Group = None,
    cp_group: Group = None,
) -> Tensor:
    """The layer's output (B, S_local, D) for the local positions, all heads summed."""
    heads = num_heads // dist.get_world_size(tp_group)
    batch, length, _ = hidden_states.shape
    qkv = (hidden_states @ w_qkv.T).view(batch, length, 3, heads, -1)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    context = _ring(q, torch.stack([k, v]), scale, causal, cp_group)
    out = context.transpose(1, 2).flatten(2) @ w_o.T
    if dist.get_world_size(tp_group) > 1:
        dist.all_reduce(out, group=tp_group)
    return out


def _ring(q: Tensor, block: Tensor, scale: float, causal: bool, group: Group) -> Tensor:
    """Attention of the local queries (B, heads, S_local, size) over the group's sequence; `block` travels around."""
    rank, count = dist.get_rank(group), dist.get_world_size(group)
    parts: tuple[Tensor, Tensor] | None = None
    for step in range(count):
        arriving, works = _pass_on(block, rank, count, group) if step < count - 1 else (block, [])
        if not causal or step <= rank:
            part = _attend(q, block[0], block[1], scale, causal and step == 0)
            parts = part if parts is None else _merge(*parts, *part)
        for work in works:
            work.wait()
        block = arriving
    assert parts is not None  # the own block is always attended to
    return parts[0].to(q.dtype)


def _pass_on(block: Tensor, rank: int, count: int, group: Group) -> tuple[Tensor, list[dist.Work]]:
    """Start sending `block` to the next rank of the group and receiving the previous rank's."""
    arriving = torch.empty_like(block)
    send = dist.P2POp(dist.isend, block, group=group, group_peer=(rank + 1) % count)
    receive = dist.P2POp(dist.irecv, arriving, group=group, group_peer=(rank - 1) % count)
    return arriving, dist.batch_isend_irecv([send, receive])


def _attend(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> tuple[Tensor, Tensor]:
    """Attention over one block in float32 and its log-sum-exp (B, heads, S_local)."""
    if q.is_cuda and q.dtype in (torch.bfloat16, torch.float16):
        # The fused kernel that also returns the log-sum-exp, which the public wrapper drops.
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
    return out + weight.unsqueeze(-1) * (part - out), lse - nn.functional.logsigmoid(lse - part_lse)
