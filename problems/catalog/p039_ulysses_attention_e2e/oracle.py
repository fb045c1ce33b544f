"""The expected outputs, in float64, from its own arguments alone."""

import torch
from torch import Tensor

from problems.catalog.p039_ulysses_attention_e2e.inputs import make_inputs
from problems.inputs.values import Call

_TOKENS = 1024
"""Positions computed at a time, to bound what attention holds."""

_WIDE, _ROWS = 1024, 256
"""Weights wider than that are converted so many rows at a time, where few tokens make that the longest part."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (B, S_local, H): projection, attention within groups of num_heads / W heads, projection."""
    arguments = make_inputs(call)
    w_qkv, w_o = arguments["w_qkv"], arguments["w_o"]
    groups, heads = call.world_size, arguments["num_heads"] // call.world_size
    tokens, causal = arguments["hidden_states"].flatten(0, 1), arguments["causal"]
    if len(tokens) > _TOKENS or w_o.shape[1] <= _WIDE:
        w_qkv, w_o = w_qkv.double(), w_o.double()
    out = [_layer(block.double(), w_qkv, w_o, groups, heads, causal=causal) for block in tokens.split(_TOKENS)]
    return (torch.cat(out).view(call.shape(("B", "S_local", "H"))),)


def _layer(tokens: Tensor, w_qkv: Tensor, w_o: Tensor, groups: int, heads: int, *, causal: bool) -> Tensor:
    """The layer on independent positions (n, H); if `causal`, a head sees none that come after it."""
    q, k, v = _projected(tokens, w_qkv).view(len(tokens), 3, groups, heads, -1).unbind(1)
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        scores += torch.full_like(scores, -torch.inf).triu(1)
    return _projected((scores.softmax(dim=-1) @ v).flatten(1), w_o)


def _projected(tokens: Tensor, weight: Tensor) -> Tensor:
    """The product of `tokens` and a weight, of which few rows at a time are in float64."""
    if weight.dtype == torch.float64:
        return tokens @ weight.T
    return torch.cat([tokens @ rows.double().T for rows in weight.split(_ROWS)], dim=1)
