"""Programs that must pass and programs that must fail."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p074_fla_kimi_delta_attention_cp_tp.reference import (
    gather_until_own,
    log_decay,
    recur,
    solution,
    unit,
)


def _step(state: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor) -> Tensor:
    """The state (B, H, Kd, Vd) after one token."""
    state = state * decay[..., None]
    change = beta[..., None] * (v - torch.einsum("bhkv,bhk->bhv", state, k))
    return state + k[..., None] * change[..., None, :]


def token_by_token(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    a_log: Tensor,
    dt_bias: Tensor,
    cp_group: Any,
    tp_group: Any,
    *,
    sigmoid: Callable[[Tensor], Tensor] = torch.sigmoid,
    normalise: Callable[[Tensor], Tensor] = unit,
) -> Tensor:
    """Gathers tensor by tensor and writes the recurrence out; `sigmoid` is for strengths, `normalise` for keys."""
    length, dtype = q.shape[1], q.dtype
    q, k, v, g, beta = (gather_until_own(x.contiguous(), cp_group).float() for x in (q, k, v, g, beta))
    q, k, decay, beta = unit(q), normalise(k), log_decay(g, a_log, dt_bias).exp(), sigmoid(beta)
    state = q.new_zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3])
    out = torch.empty_like(v)
    for token in range(q.shape[1]):
        state = _step(state, k[:, token], v[:, token], decay[:, token], beta[:, token])
        out[:, token] = torch.einsum("bhkv,bhk->bhv", state, q[:, token]) * q.shape[-1] ** -0.5
    return _sum(out[:, -length:].to(dtype).contiguous(), tp_group)


def _by_exponentials(raw: Tensor) -> Tensor:
    """A sigmoid as a quotient of exponentials: no number where they overflow."""
    return raw.exp() / (1 + raw.exp())


def _sum(out: Tensor, tp_group: Any) -> Tensor:
    if tp_group is not None:
        dist.all_reduce(out, group=tp_group)
    return out


def states_handed_on(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    a_log: Tensor,
    dt_bias: Tensor,
    cp_group: Any,
    tp_group: Any,
) -> Tensor:
    """Waits for the state before its own first token and hands on that after its last."""
    dtype, own = q.dtype, dist.get_rank(cp_group)
    q, k, decay = unit(q.float()), unit(k.float()), log_decay(g.float(), a_log, dt_bias).exp()
    v, beta = v.float(), beta.float().sigmoid()
    state = q.new_zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3])
    if own > 0:
        dist.recv(state, dist.get_global_rank(cp_group, own - 1), group=cp_group)
    out = torch.empty_like(v)
    for token in range(q.shape[1]):
        state = _step(state, k[:, token], v[:, token], decay[:, token], beta[:, token])
        out[:, token] = torch.einsum("bhkv,bhk->bhv", state, q[:, token]) * q.shape[-1] ** -0.5
    if own + 1 < dist.get_world_size(cp_group):
        dist.send(state.contiguous(), dist.get_global_rank(cp_group, own + 1), group=cp_group)
    return _sum(out.to(dtype), tp_group)


def keys_rounded(q: Tensor, k: Tensor, *rest: Any) -> Tensor:
    """Normalises queries and keys before the exchange and rounds them, as kernels on tensor cores do."""
    return solution(unit(q.float()).to(q.dtype), unit(k.float()).to(k.dtype), *rest)


def sum_in_float32(*arguments: Any) -> Tensor:
    """Adds the outputs of the tensor group up before they are rounded."""
    wide: list[Any] = [x.float() if isinstance(x, Tensor) else x for x in arguments]
    return solution(*wide).to(arguments[0].dtype)


def own_tokens_only(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    a_log: Tensor,
    dt_bias: Tensor,
    cp_group: Any,
    tp_group: Any,
) -> Tensor:
    """Starts from an empty state at the own first token."""
    del cp_group
    decay = log_decay(g.float(), a_log, dt_bias)
    strength = beta.float()[..., None].sigmoid()
    out = recur(unit(q.float()), unit(k.float()), v.float(), decay, strength)
    return _sum((out * q.shape[-1] ** -0.5).to(q.dtype).contiguous(), tp_group)


def without_tensor_sum(*arguments: Any) -> Tensor:
    """Leaves out the sum over the tensor group; where there is none, adds its own output twice."""
    alone = [*arguments[:-1], None]
    out = solution(*alone)
    return out if arguments[-1] is not None else out * 2


def without_decay(q: Tensor, k: Tensor, v: Tensor, g: Tensor, *rest: Any) -> Tensor:
    """Never forgets."""
    return solution(q, k, v, torch.full_like(g, -30.0), *rest)


def decay_by_head(q: Tensor, k: Tensor, v: Tensor, g: Tensor, *rest: Any) -> Tensor:
    """One gate per head, the mean over its channels, as in Gated DeltaNet."""
    return solution(q, k, v, g.float().mean(dim=-1, keepdim=True).expand_as(g).to(g.dtype), *rest)


def bias_ignored(*arguments: Any) -> Tensor:
    """Gates without their bias."""
    changed = [*arguments]
    changed[6] = torch.zeros_like(arguments[6])
    return solution(*changed)


def without_delta(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, *rest: Any) -> Tensor:
    """Linear attention: adds values without taking away what the state recalls."""
    tiny = 1e-3
    strength = beta.float().sigmoid() * tiny
    raw = (strength / (1 - strength)).log()
    wide: list[Any] = [x.float() if isinstance(x, Tensor) else x for x in rest]
    return solution(q.float(), k.float(), v.float() / tiny, g.float(), raw, *wide).to(q.dtype)


def strength_a_half(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, *rest: Any) -> Tensor:
    """Every strength a half, as if `beta` did not matter."""
    return solution(q, k, v, g, torch.zeros_like(beta), *rest)


def none_for_an_odd_one_out(*arguments: Any) -> Tensor:
    """Takes tokens of a rank two by two: the last one of an odd number gets nothing."""
    out = token_by_token(*arguments)
    out[:, out.shape[1] // 2 * 2 :] = 0
    return out


def in_one_chunk(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    a_log: Tensor,
    dt_bias: Tensor,
    cp_group: Any,
    tp_group: Any,
) -> Tensor:
    """The whole sequence as one chunk: divides by all decays since its start."""
    length, dtype = q.shape[1], q.dtype
    q, k, v, g, beta = (gather_until_own(x.contiguous(), cp_group).float() for x in (q, k, v, g, beta))
    total = log_decay(g, a_log, dt_bias).cumsum(dim=1)
    q, k, v, total = (x.transpose(1, 2) for x in (unit(q), unit(k), v, total))
    grown, strength = k * (-total).exp(), beta.sigmoid().transpose(1, 2)[..., None]
    system = (strength * ((k * total.exp()) @ grown.mT)).tril(-1)
    change = torch.linalg.solve_triangular(system, strength * v, upper=False, unitriangular=True)
    out = ((q * total.exp()) @ grown.mT).tril() @ change
    own = out.transpose(1, 2)[:, -length:] * q.shape[-1] ** -0.5
    return _sum(own.to(dtype).contiguous(), tp_group)


def keys_divided_by_their_length(q: Tensor, k: Tensor, *rest: Any) -> Tensor:
    """Divides every key by its length, even where that is zero."""
    return solution(q, (k.float() / k.float().norm(dim=-1, keepdim=True)).to(k.dtype), *rest)


def _by_root_of_more(rows: Tensor) -> Tensor:
    """Rows of length one, with a little more than the sum of squares in place of a floor of the length."""
    return rows * (rows.square().sum(dim=-1, keepdim=True) + 1e-6).rsqrt()


def queries_divided_by_their_length(q: Tensor, *rest: Any) -> Tensor:
    """Divides every query by its length, even where that is zero."""
    return solution((q.float() / q.float().norm(dim=-1, keepdim=True)).to(q.dtype), *rest)


HONEST: dict[str, Callable[..., Tensor]] = {
    "token_by_token": token_by_token,
    "states_handed_on": states_handed_on,
    "keys_rounded": keys_rounded,
    "sum_in_float32": sum_in_float32,
}
MUTANTS = {
    "own_tokens_only": own_tokens_only,
    "without_tensor_sum": without_tensor_sum,
    "without_decay": without_decay,
    "decay_by_head": decay_by_head,
    "bias_ignored": bias_ignored,
    "without_delta": without_delta,
    "strength_a_half": strength_a_half,
}
NARROW = {
    "short_keys": partial(token_by_token, normalise=_by_root_of_more),
    "fast_forgetting": in_one_chunk,
    "other_length": none_for_an_odd_one_out,
    "saturated": partial(token_by_token, sigmoid=_by_exponentials),
    "zero_keys": keys_divided_by_their_length,
    "zero_queries": queries_divided_by_their_length,
}
