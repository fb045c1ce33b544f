"""What each rank owes, by the recurrence token by token in float64."""

import torch
from torch import Tensor

from problems.catalog.p075_fla_gated_deltanet_cp.inputs import make_inputs
from problems.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (B, Ls, Hh, Vd): the rank's tokens after the states of all tokens before them."""
    ranks = [make_inputs(call.at_rank(rank)) for rank in range(call.world_size)]
    a_log, dt_bias = (torch.cat([one[name] for one in ranks]).double() for name in ("a_log", "dt_bias"))
    state = torch.zeros(call.shape(("B", "Hh", "Kd", "Vd")), dtype=torch.float64, device=call.device)
    out = torch.empty(call.shape(("B", "Ls", "Hh", "Vd")), dtype=torch.float64, device=call.device)
    for one in ranks[: call.rank + 1]:
        keys, queries = (_unit(one[name].double()) for name in ("k", "q"))
        values, strength = one["v"].double(), one["beta"].double()
        softplus = torch.nn.functional.softplus(one["gate"].double() + dt_bias)
        decay = (-a_log.exp() * softplus).exp()
        for token in range(keys.shape[1]):
            key = keys[:, token]
            state *= decay[:, token, :, None, None]
            recalled = torch.einsum("bhkv,bhk->bhv", state, key)
            change = strength[:, token, :, None] * (values[:, token] - recalled)
            state += key[..., None] * change[..., None, :]
            out[:, token] = torch.einsum("bhkv,bhk->bhv", state, queries[:, token])
    return (out * call.dims["Kd"] ** -0.5,)


def _unit(rows: Tensor) -> Tensor:
    return rows / rows.norm(dim=-1, keepdim=True).clamp(min=1e-6)
