"""The expected outputs, in float64: the recurrence in blocks of tokens, heads of all tensor ranks summed unrounded."""

import torch
from torch import Tensor

from problems.catalog.p074_fla_kimi_delta_attention_cp_tp.inputs import queries, remembered
from problems.families.delta_rule import Blocks
from problems.inputs.values import Call

LOWEST_LOG_DECAY = -5.0


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (B, Ls, Hh, Vd): the rank's tokens after all before them, summed over its tensor group."""
    tp = call.dims["tp"]
    first_of_group = call.rank - call.rank % tp
    total = torch.zeros(call.shape(("B", "Ls", "Hh", "Vd")), dtype=torch.float64, device=call.device)
    for member in range(tp):
        heads = call.dims["B"] * call.dims["Hh"]
        state = torch.zeros((heads, *call.shape(("Kd", "Vd"))), dtype=torch.float64, device=call.device)
        for before in range(0, first_of_group, tp):
            state = _blocks(call.at_rank(before + member)).states(state)[-1]
        own = call.at_rank(first_of_group + member)
        blocks = _blocks(own)
        total += blocks.answers(_unit(queries(own)), blocks.states(state))
    return (total * call.dims["Kd"] ** -0.5,)


def _blocks(call: Call) -> Blocks:
    """One rank's tokens."""
    arguments = remembered(call)
    rate = arguments["a_log"].double().exp()[:, None]
    gate = arguments["g"].double() + arguments["dt_bias"].double().view(call.shape(("Hh", "Kd")))
    return Blocks.of(
        keys=_unit(arguments["k"]),
        values=arguments["v"].double(),
        log_decay=LOWEST_LOG_DECAY * (rate * gate).sigmoid(),
        strength=arguments["beta"].double().sigmoid()[..., None],
    )


def _unit(rows: Tensor) -> Tensor:
    wide = rows.double()
    return wide / wide.norm(dim=-1, keepdim=True).clamp(min=1e-12)
