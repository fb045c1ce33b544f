"""The baseline: one packed all-to-all to head shards, the recurrence in chunks of tokens, one all-to-all back."""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import softplus

CHUNK = 64


def solution(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gate: Tensor,
    beta: Tensor,
    a_log: Tensor,
    dt_bias: Tensor,
    group: dist.ProcessGroup | None = None,
) -> Tensor:
    """Output (B, Ls, Hh, Vd) of the rank's tokens, in the run's dtype.

    `q`, `k` (B, Ls, Hh, Kd), `v` (B, Ls, Hh, Vd), `gate`, `beta` (B, Ls, Hh) belong to the rank's tokens and all heads,
    `a_log` and `dt_bias` (Hh/W,) to the rank's heads.
    """
    sizes = [q.shape[-1], k.shape[-1], v.shape[-1], 1, 1]
    packed = torch.cat([q, k, v, gate[..., None], beta[..., None]], dim=-1)
    q, k, v, gate, beta = to_heads(packed, group).split(sizes, dim=-1)
    log_decay = -a_log.float().exp() * softplus(gate[..., 0].float() + dt_bias.float())
    out = recur(unit(q.float()), unit(k.float()), v.float(), log_decay, beta[..., 0].float())
    return to_tokens((out * q.shape[-1] ** -0.5).to(q.dtype), group)


def unit(rows: Tensor) -> Tensor:
    """Rows of length one."""
    return rows / rows.norm(dim=-1, keepdim=True).clamp(min=1e-6)


def recur(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor) -> Tensor:
    """The gated delta rule on (B, T, H, d) in float32, one chunk of tokens after another.

    Within a chunk the changes u of all tokens solve a triangular system, so that everything is matrix products.
    """
    state = q.new_zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3])
    heads_first = [x.transpose(1, 2) for x in (q, k, v, log_decay, beta)]
    parts = []
    for chunk in zip(*(x.split(CHUNK, dim=2) for x in heads_first), strict=True):
        out, state = _chunk(state, *chunk)
        parts.append(out)
    return torch.cat(parts, dim=2).transpose(1, 2)


def _chunk(state: Tensor, q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs (B, H, C, Vd) of a chunk and the state (B, H, Kd, Vd) after it."""
    total = log_decay.cumsum(dim=-1)
    since_start = total.exp()[..., None]
    between = (total[..., :, None] - total[..., None, :]).tril().exp().tril()
    system = (beta[..., None] * between * (k @ k.mT)).tril(-1)
    right = beta[..., None] * (v - since_start * (k @ state))
    change = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    out = since_start * (q @ state) + (between * (q @ k.mT)) @ change
    until_end = (total[..., -1:] - total).exp()[..., None]
    return out, state * since_start[..., -1:, :] + (k * until_end).mT @ change


def to_heads(x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    """(B, Ls, Hh, d) of all heads and own tokens to (B, T, Hh/W, d) of own heads and all tokens."""
    world_size = dist.get_world_size(group)
    sent = x.unflatten(2, (world_size, -1)).movedim(2, 0).contiguous()
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent, group=group)
    return received.movedim(0, 1).flatten(1, 2)


def to_tokens(x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    """The way back: (B, T, Hh/W, d) to (B, Ls, Hh, d)."""
    world_size = dist.get_world_size(group)
    sent = x.unflatten(1, (world_size, -1)).movedim(1, 0).contiguous()
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent, group=group)
    return received.movedim(0, 2).flatten(2, 3)
