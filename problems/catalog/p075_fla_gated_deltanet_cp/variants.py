"""Programs that must pass and programs that must fail."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import softplus

from problems.catalog.p075_fla_gated_deltanet_cp.reference import recur, solution, to_heads, to_tokens, unit
from problems.families.rank_parts import all_gathered


def _gathered(tensor: Tensor, dim: int) -> Tensor:
    """The tensors of all ranks side by side."""
    return torch.cat(all_gathered(tensor), dim=dim)


def _log_decay(gate: Tensor, a_log: Tensor, dt_bias: Tensor, *, gated: Callable[[Tensor], Tensor] = softplus) -> Tensor:
    return -a_log.float().exp() * gated(gate.float() + dt_bias.float())


def token_by_token(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gate: Tensor,
    beta: Tensor,
    a_log: Tensor,
    dt_bias: Tensor,
    group: Any,
    *,
    normalise: Callable[[Tensor], Tensor] = unit,
) -> Tensor:
    """Tensors exchanged one by one, the recurrence written out; `normalise` is for keys."""
    dtype = q.dtype
    q, k, v = (to_heads(x, group).float() for x in (q, k, v))
    gate, beta = (to_heads(x[..., None], group)[..., 0].float() for x in (gate, beta))
    decay = _log_decay(gate, a_log, dt_bias).exp()
    q, k = unit(q), normalise(k)
    state = q.new_zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3])
    out = torch.empty_like(v)
    for token in range(q.shape[1]):
        state = state * decay[:, token, :, None, None]
        key = k[:, token, :, :, None]
        change = beta[:, token, :, None] * (v[:, token] - (state * key).sum(dim=2))
        state = state + key * change[:, :, None]
        out[:, token] = (state * q[:, token, :, :, None]).sum(dim=2) * q.shape[-1] ** -0.5
    return to_tokens(out.to(dtype), group)


def _whole(
    arguments: tuple[Any, ...], *, previous: int | None = None, gated: Callable[[Tensor], Tensor] = softplus
) -> Tensor:
    """All heads of all tokens up to the rank's own (or of so many `previous` ranks), own tokens kept.

    `gated` is for gates with their bias.
    """
    q, k, v, gate, beta = (_gathered(x, 1) for x in arguments[:5])
    a_log, dt_bias = (_gathered(x, 0) for x in arguments[5:7])
    length, rank = arguments[0].shape[1], dist.get_rank()
    first = 0 if previous is None else max(0, rank - previous)
    tokens = slice(first * length, (rank + 1) * length)
    decay = _log_decay(gate, a_log, dt_bias, gated=gated)[:, tokens]
    out = recur(
        unit(q[:, tokens].float()),
        unit(k[:, tokens].float()),
        v[:, tokens].float(),
        decay,
        beta[:, tokens].float(),
    )
    return (out[:, -length:] * q.shape[-1] ** -0.5).to(q.dtype)


def gathered(*arguments: Any) -> Tensor:
    """Gathers the sequence and runs every head up to the own tokens."""
    return _whole(arguments)


def keys_rounded(q: Tensor, k: Tensor, *rest: Any) -> Tensor:
    """Normalises queries and keys before the exchange and rounds them, as kernels on tensor cores do."""
    return solution(unit(q.float()).to(q.dtype), unit(k.float()).to(k.dtype), *rest)


def own_tokens_only(*arguments: Any) -> Tensor:
    """Starts from an empty state at the own first token."""
    return _whole(arguments, previous=0)


def without_decay(q: Tensor, k: Tensor, v: Tensor, gate: Tensor, *rest: Any) -> Tensor:
    """Never forgets."""
    return solution(q, k, v, torch.full_like(gate, -30.0), *rest)


def without_delta(
    q: Tensor, k: Tensor, v: Tensor, gate: Tensor, beta: Tensor, a_log: Tensor, dt_bias: Tensor, group: Any
) -> Tensor:
    """Linear attention: adds values without taking away what the state recalls."""
    tiny = 1e-3
    return solution(q, k, v / tiny, gate, beta * tiny, a_log, dt_bias, group)


def keys_unnormalised(q: Tensor, k: Tensor, *rest: Any) -> Tensor:
    """Divides keys by the square root of their width in place of their length."""
    length = k.float().norm(dim=-1, keepdim=True) / k.shape[-1] ** 0.5
    out: Tensor = solution(q, k, *rest) * length.clamp(0.5, 2.0).to(k.dtype)
    return out


def same_decay_for_all(*arguments: Any) -> Tensor:
    """Takes one head's decay parameters for all heads."""
    q, k, v, gate, beta, a_log, dt_bias, group = arguments
    a_log, dt_bias = torch.full_like(a_log, a_log[0] + 0.5), torch.full_like(dt_bias, dt_bias[0])
    return solution(q, k, v, gate, beta, a_log, dt_bias, group)


def in_one_chunk(
    q: Tensor, k: Tensor, v: Tensor, gate: Tensor, beta: Tensor, a_log: Tensor, dt_bias: Tensor, group: Any
) -> Tensor:
    """The whole sequence as one chunk: divides by all decays since its start."""
    dtype = q.dtype
    q, k, v = (to_heads(x, group).float().transpose(1, 2) for x in (q, k, v))
    gate, beta = (to_heads(x[..., None], group)[..., 0].float() for x in (gate, beta))
    total = _log_decay(gate, a_log, dt_bias).cumsum(dim=1).transpose(1, 2)[..., None]
    q, k, strength = unit(q), unit(k), beta.transpose(1, 2)[..., None]
    grown = k * (-total).exp()
    system = (strength * ((k * total.exp()) @ grown.mT)).tril(-1)
    change = torch.linalg.solve_triangular(system, strength * v, upper=False, unitriangular=True)
    out = ((q * total.exp()) @ grown.mT).tril() @ change * q.shape[-1] ** -0.5
    return to_tokens(out.transpose(1, 2).to(dtype), group)


def keys_divided_by_their_length(q: Tensor, k: Tensor, *rest: Any) -> Tensor:
    """Divides every key by its length, even where that is zero."""
    return solution(q, (k.float() / k.float().norm(dim=-1, keepdim=True)).to(k.dtype), *rest)


def _by_root_of_more(rows: Tensor) -> Tensor:
    """Rows of length one, with a little more than the sum of squares in place of a floor of the length."""
    return rows * (rows.square().sum(dim=-1, keepdim=True) + 1e-6).rsqrt()


def queries_divided_by_their_length(q: Tensor, *rest: Any) -> Tensor:
    """Divides every query by its length, even where that is zero."""
    return solution((q.float() / q.float().norm(dim=-1, keepdim=True)).to(q.dtype), *rest)


def by_exponentials(*arguments: Any) -> Tensor:
    """The logarithm of one and an exponential for softplus, which is infinite where a gate exceeds 88."""
    return _whole(arguments, gated=lambda raw: raw.exp().log1p())


def two_chunks_at_most(*arguments: Any) -> Tensor:
    """Gives nothing to tokens after the first 128, which are two chunks of the reference."""
    out = _whole(arguments)
    tokens = dist.get_rank() * out.shape[1] + torch.arange(out.shape[1], device=out.device)
    return out * (tokens < 128)[:, None, None]


HONEST = {"token_by_token": token_by_token, "gathered": gathered, "keys_rounded": keys_rounded}
MUTANTS = {
    "own_tokens_only": own_tokens_only,
    "without_decay": without_decay,
    "without_delta": without_delta,
    "keys_unnormalised": keys_unnormalised,
    "same_decay_for_all": same_decay_for_all,
}
NARROW = {
    "short_keys": partial(token_by_token, normalise=_by_root_of_more),
    "fast_forgetting": in_one_chunk,
    "saturated": by_exponentials,
    "zero_keys": keys_divided_by_their_length,
    "zero_queries": queries_divided_by_their_length,
    "other_length": two_chunks_at_most,
}
