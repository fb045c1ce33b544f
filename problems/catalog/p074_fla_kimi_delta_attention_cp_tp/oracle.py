"""What each rank owes, in float64: the recurrence in blocks of tokens, heads of all tensor ranks summed unrounded."""

import torch
from torch import Tensor

from problems.catalog.p074_fla_kimi_delta_attention_cp_tp.inputs import make_inputs
from problems.values import Arguments, Call

LOWEST_LOG_DECAY = -5.0
BLOCK = 64
"""Tokens at a time: their decays add up to at most exp(320), which float64 holds."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (B, Ls, Hh, Vd): the rank's tokens after all before them, summed over its tensor group."""
    tp = call.dims["tp"]
    first_of_group = call.rank - call.rank % tp
    total = torch.zeros(call.shape(("B", "Ls", "Hh", "Vd")), dtype=torch.float64, device=call.device)
    for member in range(tp):
        state = torch.zeros(call.shape(("B", "Hh", "Kd", "Vd")), dtype=torch.float64, device=call.device)
        for before in range(0, first_of_group, tp):
            state, _ = _run(make_inputs(call.at_rank(before + member)), state)
        total += _run(make_inputs(call.at_rank(first_of_group + member)), state)[1]
    return (total * call.dims["Kd"] ** -0.5,)


def _run(arguments: Arguments, state: Tensor) -> tuple[Tensor, Tensor]:
    """The state after one rank's tokens, and their outputs (B, Ls, Hh, Vd) without the scale of the queries."""
    rate = arguments["a_log"].double().exp()[:, None]
    gate = arguments["g"].double() + arguments["dt_bias"].double().view(arguments["g"].shape[-2:])
    log_decay = LOWEST_LOG_DECAY * (rate * gate).sigmoid()
    strength = arguments["beta"].double().sigmoid()[..., None]
    q, k = (_unit(arguments[name].double()) for name in ("q", "k"))
    sequences = (q, k, arguments["v"].double(), log_decay, strength)
    out = []
    for block in zip(*(each.transpose(1, 2).split(BLOCK, dim=2) for each in sequences), strict=True):
        state, part = _block(state, *block)
        out.append(part)
    return state, torch.cat(out, dim=2).transpose(1, 2)


def _block(
    state: Tensor, q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, strength: Tensor
) -> tuple[Tensor, Tensor]:
    """The state after a block (B, H, T, .) and its outputs.

    With u the changes of all tokens, (1 + strength * L) u = strength * (v - decayed keys * state), L strictly lower.
    """
    since_start = log_decay.cumsum(dim=2)
    faded, grown = k * since_start.exp(), k * (-since_start).exp()
    recalls = (faded @ grown.mT).tril(-1)
    unit = torch.eye(k.shape[2], dtype=k.dtype, device=k.device)
    change = torch.linalg.solve(unit + strength * recalls, strength * (v - faded @ state))
    asked = q * since_start.exp()
    out = asked @ state + (asked @ grown.mT).tril() @ change
    return since_start[:, :, -1].exp()[..., None] * (state + grown.mT @ change), out


def _unit(rows: Tensor) -> Tensor:
    return rows / rows.norm(dim=-1, keepdim=True).clamp(min=1e-12)
