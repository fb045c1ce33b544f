"""Programs that must pass and programs that must fail."""

from functools import partial
from math import e, log2
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.attention_programs import none_for_an_odd_one_out
from problems.families.rank_parts import all_gathered

Gradients = tuple[Tensor, ...]


def _gather(tensor: Tensor, group: Any, *, dim: int = 1) -> Tensor:
    """A tensor's shards of the whole context group, in float32."""
    return torch.cat(all_gathered(tensor, group), dim=dim).float()


def gathered(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    softmax_lse: Tensor,
    softmax_scale: float | None,
    causal: bool,
    cp_group: Any,
    dp_group: Any,
    *,
    width: torch.dtype = torch.float32,
    flips: bool = False,
    has_delta: bool = True,
    has_scale: bool = True,
    averages: bool = True,
    sums: bool = False,
    is_factored: bool = False,
    least_lse: float = -torch.inf,
) -> Gradients:
    """Gathers everything in the context group and differentiates the whole attention; the last arguments err."""
    rank, length = dist.get_rank(cp_group), q.shape[1]
    d_all, q_all, k_all, v_all, o_all = (_gather(tensor, cp_group).to(width) for tensor in (dout, q, k, v, out))
    lse = _gather(softmax_lse, cp_group, dim=2).unsqueeze(-1).to(width).clamp(min=least_lse)
    scale = q.shape[-1] ** -0.5 if softmax_scale is None or not has_scale else softmax_scale
    scores = torch.einsum("bqhd,bkhd->bhqk", q_all, k_all) * scale
    p = scores.exp() / lse.exp() if is_factored else (scores - lse).exp()
    p = p.tril() if causal != flips else p
    delta = (d_all * o_all).sum(dim=-1).transpose(1, 2).unsqueeze(-1) * has_delta
    ds = p * (torch.einsum("bqhd,bkhd->bhqk", d_all, v_all) - delta) * scale
    whole = (
        torch.einsum("bhqk,bkhd->bqhd", ds, k_all),
        torch.einsum("bhqk,bqhd->bkhd", ds, q_all),
        torch.einsum("bhqk,bqhd->bkhd", p, d_all),
    )
    own = [part[:, rank * length : (rank + 1) * length].to(q.dtype) for part in whole]
    return tuple(_mean(part, dp_group, averages=averages, sums=sums) for part in own)


def in_rounded_blocks(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, softmax_lse: Tensor, *rest: Any
) -> Gradients:
    """As rings around a fused kernel have it: powers of two, P and S rounded, and the gradients of every block too."""
    softmax_scale, causal, cp_group, dp_group = rest
    rank = dist.get_rank(cp_group)
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    by_rank = [[part.float() for part in all_gathered(tensor, cp_group)] for tensor in (dout, q, k, v, out)]
    shards = list(zip(*by_rank, all_gathered(softmax_lse, cp_group), strict=True))
    dq, dk, dv = totals = torch.zeros(3, *q.shape, device=q.device)
    for asking, (d, queries, _, _, o, lse) in enumerate(shards):
        delta = (d * o).sum(dim=-1).transpose(1, 2).unsqueeze(-1)
        for seen, (_, _, keys, values, _, _) in enumerate(shards[: asking + 1] if causal else shards):
            if rank not in (asking, seen):
                continue
            scores = torch.einsum("bqhd,bkhd->bhqk", queries, keys)
            p = (scores * (scale * log2(e)) - lse.unsqueeze(-1) * log2(e)).exp2()
            p = p.tril() if causal and asking == seen else p
            ds = (p * (torch.einsum("bqhd,bkhd->bhqk", d, values) - delta)).to(q.dtype).float()
            if asking == rank:
                dq += (torch.einsum("bhqk,bkhd->bqhd", ds, keys) * scale).to(q.dtype)
            if seen == rank:
                dk += (torch.einsum("bhqk,bqhd->bkhd", ds, queries) * scale).to(q.dtype)
                dv += torch.einsum("bhqk,bqhd->bkhd", p.to(q.dtype).float(), d).to(q.dtype)
    return tuple(_mean(part.to(q.dtype), dp_group, averages=True, sums=False) for part in totals)


def _mean(part: Tensor, group: Any, *, averages: bool, sums: bool) -> Tensor:
    """The mean over replicas."""
    total = part.float().contiguous()
    if averages:
        dist.all_reduce(total, group=group)
        total = total if sums else total / dist.get_world_size(group)
    return total.to(part.dtype)


def own_keys_only(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, softmax_lse: Tensor, *rest: Any
) -> Gradients:
    """No ring and no replicas: the rank's queries with the rank's keys."""
    softmax_scale, causal, _, _ = rest
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    p = (torch.einsum("bqhd,bkhd->bhqk", q.float(), k.float()) * scale - softmax_lse.unsqueeze(-1)).exp()
    p = p.tril() if causal else p
    delta = (dout.float() * out.float()).sum(dim=-1).transpose(1, 2).unsqueeze(-1)
    ds = p * (torch.einsum("bqhd,bkhd->bhqk", dout.float(), v.float()) - delta) * scale
    parts = (
        torch.einsum("bhqk,bkhd->bqhd", ds, k.float()),
        torch.einsum("bhqk,bqhd->bkhd", ds, q.float()),
        torch.einsum("bhqk,bqhd->bkhd", p, dout.float()),
    )
    return tuple(part.to(q.dtype) for part in parts)


def bounded_scale(*arguments: Any) -> Gradients:
    """Takes a scale for no smaller than half the default."""
    *tensors, softmax_scale, causal, cp_group, dp_group = arguments
    default = tensors[0].shape[-1] ** -0.5
    scale = default if softmax_scale is None else max(softmax_scale, default / 2)
    return gathered(*(*tensors, scale, causal, cp_group, dp_group))


HONEST = {
    "gathered": gathered,
    "in_float64": partial(gathered, width=torch.float64),
    "in_rounded_blocks": in_rounded_blocks,
}
MUTANTS = {
    "own_keys_only": own_keys_only,
    "causal_exchanged": partial(gathered, flips=True),
    "without_delta": partial(gathered, has_delta=False),
    "replicas_not_averaged": partial(gathered, averages=False),
    "replicas_summed": partial(gathered, sums=True),
}
NARROW = {
    "other_shape": none_for_an_odd_one_out(gathered),
    "flat_scale": bounded_scale,
    "large_scores": partial(gathered, is_factored=True),
    "negative_scores": partial(gathered, least_lse=-80.0),
}
