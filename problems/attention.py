"""A causal attention layer for problems that split one: drawn weights, and the answer in float64 without a collective.

Shapes: B batch, S positions, D hidden size; heads of one rank, each of `size` channels.
"""

import torch
from torch import Tensor

from problems.values import Call

_SCORES = 1 << 27
"""Scores held at a time: 1 GiB in float64."""

_OUTLIER = 12.0
"""How much larger than the others an outlier channel is. Beside them, one 8-bit scale per row is too coarse."""

_OUTLIER_OUTPUTS = 4


def draw_layer(call: Call, name: str, *, hidden: int, heads: int, size: int) -> tuple[Tensor, Tensor]:
    """Weights `w_qkv` (3*heads*size, D) and `w_o` (D, heads*size) in the run's dtype, equal wherever `name` is drawn.

    For inputs of unit size, scaled scores have a standard deviation between 0.5 and 1.4, another for each head: no head
    is near the mean of all values, none picks a single key, and rounded queries and keys do little harm. As in trained
    models, one value channel per head and four output channels are outliers.
    """
    features = heads * size
    w_qkv = call.normal(f"{name} qkv", (3, heads, size, hidden), std=hidden**-0.5, dtype=torch.float32, shared=True)
    w_qkv[0] *= call.uniform(
        f"{name} sharpness", (heads, 1, 1), low=-1.0, high=0.5, dtype=torch.float32, shared=True
    ).exp2_()
    outliers = call.integers(f"{name} value outliers", (heads, 1), low=0, high=size, shared=True)
    is_outlier = torch.arange(size, device=call.device) == outliers
    w_qkv[2] *= _of_unit_size(torch.where(is_outlier, _OUTLIER, 1.0)).unsqueeze(-1)
    rows = torch.ones(hidden, 1, device=call.device)
    rows[call.permutation(f"{name} output outliers", hidden, shared=True)[:_OUTLIER_OUTPUTS]] = _OUTLIER
    w_o = call.normal(f"{name} o", (hidden, features), std=features**-0.5, dtype=torch.float32, shared=True)
    w_o *= _of_unit_size(rows)
    return w_qkv.flatten(0, 2).to(call.dtype), w_o.to(call.dtype)


def _of_unit_size(factors: Tensor) -> Tensor:
    """`factors` divided by their root mean square, so that a layer neither inflates nor shrinks its input much."""
    return factors / factors.square().mean().sqrt()


def draw_scale(call: Call, size: int) -> float | None:
    """The argument `softmax_scale`: by a coin None, which means size^-0.5, or a number within a quarter of that."""
    coin, factor = call.uniform("softmax_scale", (2,), dtype=torch.float64, shared=True).tolist()
    return None if coin < 1 / 2 else size**-0.5 * (0.75 + 0.5 * factor)


def layer(tokens: Tensor, w_qkv: Tensor, w_o: Tensor, *, heads: int, scale: float | None, last: int) -> Tensor:
    """The layer's output (B, last, D) in float64 for the `last` positions of `tokens` (B, S, D)."""
    batch, length, _ = tokens.shape
    q, k, v = (tokens.double() @ w_qkv.double().T).view(batch, length, 3, heads, -1).unbind(2)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    context = [
        _attend(q[item, -last:, head], k[item, :, head], v[item, :, head], scale=scale)
        for item in range(batch)
        for head in range(heads)
    ]
    mixed = torch.stack(context).view(batch, heads, last, -1).transpose(1, 2).flatten(2)
    return mixed @ w_o.double().T


def _attend(queries: Tensor, keys: Tensor, values: Tensor, *, scale: float) -> Tensor:
    """Causal attention of one head by blocks of queries, which are the last positions of keys and values."""
    length = keys.shape[0]
    positions = torch.arange(length, device=keys.device)
    step = max(1, _SCORES // length)
    out = []
    for start in range(0, queries.shape[0], step):
        block = queries[start : start + step]
        own = length - queries.shape[0] + start + torch.arange(block.shape[0], device=keys.device)
        scores = (block @ keys.T * scale).masked_fill_(positions > own.unsqueeze(1), -torch.inf)
        out.append(scores.softmax(dim=-1) @ values)
    return torch.cat(out)
