"""The baseline: one packed all-gather of the sequence, the recurrence in chunks of tokens, one all-reduce."""

import torch
import torch.distributed as dist
from torch import Tensor

CHUNK = 16
"""Tokens at a time: a channel decays by at most exp(-5) per token, and exp(80) still is a float32."""


def solution(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    a_log: Tensor,
    dt_bias: Tensor,
    cp_group: "dist.ProcessGroup | None" = None,
    tp_group: "dist.ProcessGroup | None" = None,
) -> Tensor:
    """Output (B, Ls, Hh, Vd) of the rank's tokens, summed over the tensor group, in the run's dtype.

    `q`, `k`, `g` (B, Ls, Hh, Kd), `v` (B, Ls, Hh, Vd) and `beta` (B, Ls, Hh) belong to the rank's tokens, `a_log` (Hh,)
    and `dt_bias` (Hh * Kd,) to all heads.
    """
    length, dtype = q.shape[1], q.dtype
    sizes = [q.shape[-1], k.shape[-1], v.shape[-1], g.shape[-1], 1]
    packed = gather_until_own(torch.cat([q, k, v, g, beta[..., None]], dim=-1), cp_group)
    q, k, v, g, beta = (part.float() for part in packed.split(sizes, dim=-1))
    out = recur(unit(q[:, -length:]), unit(k), v, log_decay(g, a_log, dt_bias), beta.sigmoid())
    out = (out * q.shape[-1] ** -0.5).to(dtype).contiguous()
    if tp_group is not None and dist.get_world_size(tp_group) > 1:
        dist.all_reduce(out, group=tp_group)
    return out


def gather_until_own(tokens: Tensor, group: "dist.ProcessGroup | None") -> Tensor:
    """(B, Ls, ...) of every rank of the group up to this one, side by side."""
    parts = tokens.new_empty((dist.get_world_size(group), *tokens.shape))
    dist.all_gather_into_tensor(parts.view(-1), tokens.view(-1), group=group)
    return parts[: dist.get_rank(group) + 1].movedim(0, 1).flatten(1, 2)


def unit(rows: Tensor) -> Tensor:
    """Rows of length one."""
    return rows / rows.norm(dim=-1, keepdim=True).clamp(min=1e-12)


def log_decay(g: Tensor, a_log: Tensor, dt_bias: Tensor) -> Tensor:
    """Logarithms of the decays (B, T, Hh, Kd), between -5 and 0."""
    gate = a_log.float().exp()[:, None] * (g + dt_bias.float().view(g.shape[-2:]))
    return -5 * gate.sigmoid()


def recur(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor) -> Tensor:
    """Outputs of the delta rule for the last tokens of the sequence, as many as `q` has; all (B, T, H, d), float32.

    The changes u that the tokens of a chunk make to the state S solve a triangular system whose right side is linear in
    S, so it is solved for all chunks at once. What remains to be done chunk by chunk are two products of matrices.
    """
    batch, own, heads, _ = q.shape
    q, k, v, log_decay, beta = (in_chunks(x) for x in (q, k, v, log_decay, beta))
    total = log_decay.cumsum(dim=-2)
    grown, faded = k * (-total).exp(), k * total.exp()
    system = (beta * (faded @ grown.mT)).tril(-1)
    right = beta * torch.cat([v, faded], dim=-1)
    solved = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    change, recall = solved.split([v.shape[-1], k.shape[-1]], dim=-1)
    survive = total[:, :, -1, :, None].exp()
    state = v.new_zeros(batch * heads, k.shape[-1], v.shape[-1])
    states, updates = [], []
    for n in range(len(k)):
        states.append(state)
        updates.append(torch.baddbmm(change[n], recall[n], state, alpha=-1))
        state = survive[n] * torch.baddbmm(state, grown[n].mT, updates[n])
    last = slice(-len(q), None)
    asked = q * total[last].exp()
    out = asked @ torch.stack(states[last]) + (asked @ grown[last].mT).tril() @ torch.stack(updates[last])
    return out.unflatten(1, (batch, heads)).permute(1, 0, 3, 2, 4).flatten(1, 2)[:, -own:]


def in_chunks(x: Tensor) -> Tensor:
    """(B, T, H, d) as (chunks, B * H, CHUNK, d); zeros before the first token fill the first chunk."""
    x = torch.nn.functional.pad(x, (0, 0, 0, 0, -x.shape[1] % CHUNK, 0))
    return x.unflatten(1, (-1, CHUNK)).permute(1, 0, 3, 2, 4).flatten(1, 2)
