# ruff: noqa: PLC0415
# A spec counts by its data: until it is asked, the oracle must not load the modules that it is made from.
"""The expected outputs, in float64, without a ring, and a comparison that knows how large channels are."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from problems.catalog.p057_ring_attention_backward_dp.inputs import (
    channel_sizes,
    forward,
    from_out,
    keys_and_values,
    options,
    queries,
)
from problems.families import attention
from problems.inputs.values import Call
from problems.outputs.comparison import Comparison, compare_output


def expected(call: Call) -> tuple[Tensor, ...]:
    """`dq`, `dk`, `dv` (B, S_local, num_heads, head_dim), averaged over the replicas."""
    cp, dp, heads = (call.dims[name] for name in ("cp_size", "dp_size", "num_heads"))
    place = call.rank % cp
    causal, softmax_scale = options(call)
    scale = softmax_scale or call.dims["head_dim"] ** -0.5
    shape = call.dims["B"] * heads, call.dims["S_local"], call.dims["head_dim"]
    dq, dk, dv = total = torch.zeros(3, *shape, dtype=torch.float64, device=call.device)
    for replica in range(dp):
        ranks = [call.at_rank(replica * cp + rank) for rank in range(cp)]
        shards = [keys_and_values(rank) for rank in ranks]
        own = tuple(map(attention.by_head, shards[place]))
        # Others' queries matter to the rank's keys alone; its own meet every shard that they see.
        for asking in range(place if causal else 0, cp):
            seen = shards[: asking + 1] if causal else shards
            asked = _asked(ranks[asking], seen, causal=causal, scale=scale)
            if asking != place:
                _add_pairs(asked, *own, scale=scale, causal=False, dk=dk, dv=dv)
                continue
            _add_pairs(asked, *own, scale=scale, causal=causal, dq=dq, dk=dk, dv=dv)
            for shard in seen[:place] + seen[place + 1 :]:
                _add_pairs(asked, *map(attention.by_head, shard), scale=scale, causal=False, dq=dq)
    return tuple(attention.by_position(part, heads=heads).contiguous() for part in total.div_(dp))


def compare(call: Call, actual: Sequence[Tensor], expected: Sequence[Tensor]) -> tuple[Comparison, ...]:
    """By tolerance, after each channel is divided by its size: no large one hides the others, or fails by itself.

    dv has the channels of `dout`, a few of which would decide its rms alone. Where a regime adds the same to all
    scores, one channel of all keys is one large number. What it multiplies in dq sums to nothing, but its roundings to
    bfloat16 do not: beside the other channels no bound would hold them.
    """
    from problems.catalog.p057_ring_attention_backward_dp.spec import PROBLEM

    sizes, found = channel_sizes(call), []
    for output, mine, right in zip(PROBLEM.outputs_in(call.regime), actual, expected, strict=True):
        if output.name not in sizes:
            found.append(compare_output(output, mine, right))
            continue
        # Powers of two: division by them rounds nothing.
        unit = sizes[output.name].log2().round_().exp2_()
        found.append(compare_output(output, mine / unit.to(mine.dtype), right / unit))
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """Queries of a rank (heads, n, size) and what is known of their outputs, in float64; numbers have (heads, n, 1)."""

    queries: Tensor
    from_out: Tensor
    lse: Tensor
    delta: Tensor


def _asked(call: Call, shards: Sequence[tuple[Tensor, Tensor]], *, causal: bool, scale: float) -> _Asked:
    """The rank's queries, which see `shards`."""
    q = queries(call)
    out, lse = forward(q, shards, causal=causal, scale=scale, far=attention.are_far(call))
    gradient = attention.by_head(from_out(call))
    delta = (gradient * attention.by_head(out)).sum(dim=2, keepdim=True)
    return _Asked(
        queries=attention.by_head(q),
        from_out=gradient,
        lse=lse.flatten(0, 1).unsqueeze(2).double(),
        delta=delta,
    )


def _add_pairs(
    asked: _Asked,
    keys: Tensor,
    values: Tensor,
    *,
    scale: float,
    causal: bool,
    dq: Tensor | None = None,
    dk: Tensor | None = None,
    dv: Tensor | None = None,
) -> None:
    """Add to gradients what pairs of a query and a key (heads, S, size) give, block by block of scores.

    With s = scale * q k: p = exp(s - lse) and ds = p * (dout v - delta), where delta = dout out.
    """
    for heads, rows, seen in attention.blocks(asked.queries, keys, causal=causal):
        q, dout = asked.queries[heads, rows], asked.from_out[heads, rows]
        lse, delta = asked.lse[heads, rows].neg(), asked.delta[heads, rows].neg()
        for columns, diagonal in seen:
            k, v = keys[heads, columns], values[heads, columns]
            p = torch.baddbmm(lse, q, k.mT, alpha=scale).exp_()
            if diagonal is not None:
                p.tril_(diagonal)
            ds = torch.baddbmm(delta, dout, v.mT).mul_(p)
            if dq is not None:
                dq[heads, rows].baddbmm_(ds, k, alpha=scale)
            if dk is not None:
                dk[heads, columns].baddbmm_(ds.mT, q, alpha=scale)
            if dv is not None:
                dv[heads, columns].baddbmm_(p.mT, dout)
