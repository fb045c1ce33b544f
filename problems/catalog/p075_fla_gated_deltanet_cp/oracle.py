"""The expected outputs, in float64: the recurrence in blocks of tokens."""

import torch
from torch import Tensor

from problems.catalog.p075_fla_gated_deltanet_cp.inputs import decay_parameters, queries, remembered
from problems.families.delta_rule import Blocks
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (B, Ls, Hh, Vd): the rank's tokens after the states of all tokens before them."""
    heads = call.dims["B"] * call.dims["Hh"]
    state = torch.zeros((heads, *call.shape(("Kd", "Vd"))), dtype=torch.float64, device=call.device)
    for rank in range(call.rank):
        state = _blocks(call.at_rank(rank)).states(state)[-1]
    blocks = _blocks(call)
    return (blocks.answers(_unit(queries(call)), blocks.states(state)) * call.dims["Kd"] ** -0.5,)


def _blocks(call: Call) -> Blocks:
    """One rank's tokens, all heads."""
    arguments = remembered(call)
    a_log, dt_bias = (parameter.double() for parameter in decay_parameters(call))
    softplus = torch.nn.functional.softplus(arguments["gate"].double() + dt_bias)
    return Blocks.of(
        keys=_unit(arguments["k"]),
        values=arguments["v"].double(),
        log_decay=(-a_log.exp() * softplus)[..., None],
        strength=arguments["beta"].double()[..., None],
    )


def _unit(rows: Tensor) -> Tensor:
    wide = rows.double()
    return wide / wide.norm(dim=-1, keepdim=True).clamp(min=1e-6)
