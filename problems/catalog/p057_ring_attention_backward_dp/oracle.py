"""What each rank owes, in float64, head by head, without a ring."""

import torch
from torch import Tensor

from problems.catalog.p057_ring_attention_backward_dp.inputs import make_inputs
from problems.values import Arguments, Call

_NAMES = ("dout", "q", "k", "v", "out")


def expected(call: Call) -> tuple[Tensor, ...]:
    """`dq`, `dk`, `dv` (B, S_local, num_heads, head_dim), averaged over the replicas."""
    cp, dp = call.dims["cp_size"], call.dims["dp_size"]
    place = call.rank % cp
    total = [torch.zeros((), dtype=torch.float64, device=call.device)] * 3
    for replica in range(dp):
        every = [make_inputs(call.at_rank(replica * cp + rank)) for rank in range(cp)]
        parts = [torch.zeros(call.shape(("B", "S_local", "num_heads", "head_dim"))).double().to(call.device)] * 3
        parts = [part.clone() for part in parts]
        for other in range(cp):
            _add_block(parts[:1], every, query=place, key=other)
            _add_block(parts[1:], every, query=other, key=place)
        total = [left + right / dp for left, right in zip(total, parts, strict=True)]
    return tuple(total)


def _add_block(parts: list[Tensor], every: list[Arguments], *, query: int, key: int) -> None:
    """Add what queries of one rank and keys of another give: to dq if `parts` is one tensor, else to dk and dv."""
    causal, scale = every[query]["causal"], every[query]["softmax_scale"]
    if causal and key > query:
        return
    scale = scale or every[query]["q"].shape[-1] ** -0.5
    for head in range(parts[0].shape[2]):
        own, other = ({name: each[name][:, :, head].double() for name in _NAMES} for each in (every[query], every[key]))
        lse = every[query]["softmax_lse"][:, head].double().unsqueeze(-1)
        p = (own["q"] @ other["k"].mT * scale - lse).exp()
        if causal and key == query:
            p = p.tril()
        delta = (own["dout"] * own["out"]).sum(dim=-1, keepdim=True)
        ds = p * (own["dout"] @ other["v"].mT - delta) * scale
        if len(parts) == 1:
            parts[0][:, :, head] += ds @ other["k"]
        else:
            parts[0][:, :, head] += ds.mT @ own["q"]
            parts[1][:, :, head] += p.mT @ own["dout"]
