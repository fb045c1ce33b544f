"""Attention for problems that split it over ranks: drawn weights, and the answer in float64 without a collective.

Shapes: B batch, S positions, D hidden size; heads of one rank, each of `size` channels.
"""

from collections.abc import Iterator
from math import floor, log2

import torch
from torch import Tensor

from problems.inputs.copying import picking
from problems.inputs.regime_values import LARGEST, SMALLEST, unequal_sizes
from problems.inputs.values import Call

_SCORES = 1 << 22
"""Scores held at a time: 32 MiB in float64, which a GPU keeps in its cache from one pass over them to the next."""

_KEYS = 512
"""Keys taken at a time; the more there are, the fewer are the queries, and so the sums that run at once."""

_OUTLIER = 12.0
"""How much larger than the others an outlier channel is. Beside them, one 8-bit scale per row is too coarse."""

_OUTLIER_OUTPUTS = 4

_ADDED = {"large": 150.0, "negative": -250.0, "masked_high": -250.0}
"""What regimes add to scores, at the default scale: exponentials of float32 overflow, or are all zero."""


_ALONE = 512.0
"""About the score of a position that a regime has alone decide, at the default scale; another's is half as large."""


def draw_layer(call: Call, name: str, *, hidden: int, heads: int, size: int) -> tuple[Tensor, Tensor]:
    """Weights `w_qkv` (3*heads*size, D) and `w_o` (D, heads*size) in the run's dtype, equal wherever `name` is drawn.

    For inputs of unit size, scaled scores have a standard deviation between 0.5 and 1.4, another for each head. So no
    head is near the mean of all values, none picks a single key, and rounded queries and keys do little harm. As in
    trained models, one value channel per head and four output channels are outliers.
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


def copying_layer(call: Call, name: str, *, hidden: int, heads: int, size: int) -> tuple[Tensor, Tensor]:
    """Weights as of `draw_layer` with which positions copy elements of the first one, if they see `marked` tokens.

    Every head but one attends to the marked position alone: its score exceeds all others by more than the exponential
    of a float32 bears. The one head attends to all alike, and hands on the mark, which grows fainter by position.
    """
    mark, one = hidden - 2, hidden - 1
    w_q, w_k = torch.zeros(2, heads, size, hidden, dtype=call.dtype, device=call.device)
    w_q[1:, 0, one], w_k[1:, 0, mark] = 2.0 ** floor(log2(_ALONE * size**0.5)), 1.0
    w_v = torch.zeros_like(w_q)
    picked = picking(call, f"{name} v", (heads * size, hidden - 2), shared=True)
    w_v.view(-1, hidden)[:, :mark] = picked
    w_v[0], w_v[1, 0] = 0.0, 0.0
    w_v[0, 0, mark] = w_v[1, 0, one] = 1.0
    w_o = torch.zeros(hidden, heads * size, dtype=call.dtype, device=call.device)
    w_o[:, size + 1 :] = picking(call, f"{name} o", (hidden, heads * size - size - 1), shared=True)
    w_o[mark:] = 0.0
    w_o[mark, 0] = w_o[one, size] = 1.0
    return torch.cat([w_q, w_k, w_v]).flatten(0, 1), w_o


def marked(tokens: Tensor, first: Tensor | None) -> Tensor:
    """`tokens` (B, n, D) with `first` (B, D), marked, in place of their first; None where the mark is elsewhere."""
    if first is not None:
        tokens[:, 0] = first
    tokens[..., -2], tokens[..., -1] = 0.0, 1.0
    if first is not None:
        tokens[:, 0, -2] = 1.0
    return tokens


def _of_unit_size(factors: Tensor) -> Tensor:
    """`factors` divided by their root mean square, so that a layer neither inflates nor shrinks its input much."""
    return factors / factors.square().mean().sqrt()


def draw_scale(call: Call, size: int) -> float | None:
    """The argument `softmax_scale`: by a coin None, which means size^-0.5, or a number within a quarter of that.

    A regime may have another part of size^-0.5.
    """
    if (part := call.setting("softmax_scale", None)) is not None:
        return float(part * size**-0.5)
    coin, factor = call.uniform("softmax_scale", (2,), dtype=torch.float64, shared=True).tolist()
    return None if coin < 1 / 2 else size**-0.5 * (0.75 + 0.5 * factor)


def in_score_regime(call: Call, tensor: Tensor, *, are_keys: bool = False) -> Tensor:
    """Queries or keys (..., size), where some are masked (B, S_local, heads, size), as the call's regime has them.

    One channel is alike in all of them and adds the same to every score, but for its sign; or keys are so much longer,
    and queries so much shorter, that scores are what they usually are.
    """
    if call.setting("scores", None) is not None:
        tensor[..., 0] = common_factor(call, tensor.shape[-1], are_keys=are_keys)
        tensor[:, _turned(call, tensor.shape[1])][..., 0] *= -1
    if (keys := call.setting("keys", None)) is not None:
        tensor *= LARGEST if are_keys == (keys == "huge") else 1 / LARGEST
    return tensor


def common_factor(call: Call, size: int, *, are_keys: bool) -> float:
    """What a channel of queries or keys is in a regime that adds the same to all scores of heads of `size`."""
    usual = _ADDED[call.setting("scores", "")]
    factor: float = (call.setting("added", abs(usual)) * size**0.5) ** 0.5
    return -factor if are_keys and usual < 0 else factor


def are_far(call: Call) -> bool:
    """Whether the call has scores whose exponentials float64 may not hold."""
    return call.setting("added", None) is not None


def _turned(call: Call, positions: int) -> slice:
    """Positions of a shard that take from scores what others add, and add what they take.

    In a regime these are the last half. So early queries see low scores alone, and keys that are masked for them have
    high ones. No position is turned where none is masked.
    """
    are_masked = call.setting("scores", None) == "masked_high" and call.setting("causal", usual=True)
    return slice((positions + 1) // 2 if are_masked else positions, positions)


def with_negative_scores(call: Call, w_qkv: Tensor, *, heads: int) -> Tensor:
    """`w_qkv` of a layer; in a regime such that the last channel of tokens, 1 or -1, decides what scores are near."""
    if call.setting("scores", None) is not None:
        by_part = w_qkv.view(3, heads, -1, w_qkv.shape[1])
        by_part[:2, :, 0] = 0.0
        for part, are_keys in enumerate((False, True)):
            by_part[part, :, 0, -1] = common_factor(call, by_part.shape[2], are_keys=are_keys)
    return w_qkv


def with_ones(call: Call, tokens: Tensor) -> Tensor:
    """`tokens` (B, n, D); in the regime of `with_negative_scores` with 1 in the last channel, or -1 where turned."""
    if call.setting("scores", None) is not None:
        tokens[..., -1] = 1.0
        tokens[:, _turned(call, tokens.shape[1]), -1] = -1.0
    return tokens


def positions_factor(call: Call) -> float | Tensor:
    """By what a regime multiplies tokens, a power of two; `for_positions` takes it from the weights they first meet.

    One number, or one for each of the D channels.
    """
    if call.setting("positions", "") == "unequal":
        return unequal_sizes(call, "D")
    return SMALLEST if call.setting("positions", "") == "tiny" else 1.0


def for_positions(call: Call, w_qkv: Tensor) -> Tensor:
    """`w_qkv` of a layer whose tokens, or whose queries beside its keys, a regime has huge or tiny."""
    w_qkv = (w_qkv / positions_factor(call)).to(w_qkv.dtype)
    if call.setting("positions", None) == "queries":
        queries, keys, _ = w_qkv.chunk(3)
        queries *= LARGEST
        keys /= LARGEST
    return w_qkv


def zeroed(call: Call, tokens: Tensor) -> Tensor:
    """`tokens` (B, n, D); zeros where a regime has all of them zero, or the first."""
    if call.setting("values", None) != "zero":
        return tokens
    return tokens.index_fill(1, torch.zeros(1, dtype=torch.long, device=tokens.device), 0.0) * float(
        call.setting("zeros", "all") == "first"
    )


def layer(
    tokens: Tensor,
    w_qkv: Tensor,
    w_o: Tensor,
    *,
    heads: int,
    scale: float | None,
    asking: slice,
    causal: bool,
    far: bool = False,
) -> Tensor:
    """A layer's output (B, n, D) in float64 for the positions `asking` of `tokens` (B, S, D).

    If `causal`, these are the last ones, and each sees positions up to its own; else each sees all. If scores are
    `far` from 0, their maximum is subtracted.
    """
    tokens = tokens.double()
    w_q, w_k, w_v = w_qkv.double().chunk(3)
    # Other positions are seen, but ask nothing.
    q, k, v = (
        by_head((seen @ weight.T).unflatten(2, (heads, -1)))
        for seen, weight in ((tokens[:, asking], w_q), (tokens, w_k), (tokens, w_v))
    )
    context, _ = attend(q, k, v, scale=q.shape[-1] ** -0.5 if scale is None else scale, causal=causal, far=far)
    return by_position(context, heads=heads).flatten(2) @ w_o.double().T


def by_head(tensor: Tensor) -> Tensor:
    """(B, S, heads, size) as (B * heads, S, size) in float64."""
    return tensor.transpose(1, 2).flatten(0, 1).double()


def by_position(tensor: Tensor, *, heads: int) -> Tensor:
    """(B * heads, S, ...) as (B, S, heads, ...)."""
    return tensor.view(-1, heads, *tensor.shape[1:]).transpose(1, 2)


def attend(
    queries: Tensor, keys: Tensor, values: Tensor, *, scale: float, causal: bool = True, far: bool = False
) -> tuple[Tensor, Tensor]:
    """Softmax attention (heads, n, size), and for each query (heads, n) the logarithm of its sum of exponentials.

    All in float64: queries (heads, n, size), keys and values (heads, S, size). With `causal`, queries are those of the
    last n positions, and each sees keys up to its own position.

    A block of queries meets block after block of keys: exponentials times values are summed, so are the exponentials,
    and one sum is divided by the other. No maximum is subtracted: float64 holds the exponential of a score up to 700,
    and drawn queries and keys are too short for one beyond 300. Only if scores are `far` from 0, as a regime has them,
    is the maximum found first.
    """
    out, sums = torch.empty_like(queries), torch.empty_like(queries[:, :, :1])
    for heads, rows, seen in blocks(queries, keys, causal=causal):
        block = queries[heads, rows] * scale
        total, mass = torch.zeros_like(block), torch.zeros_like(block[:, :, :1])
        peak = _largest(block, keys[heads], seen) if far else torch.zeros_like(mass)
        for columns, diagonal in seen:
            weights = torch.bmm(block, keys[heads, columns].mT)
            weights = (weights.sub_(peak) if far else weights).exp_()
            if diagonal is not None:
                weights.tril_(diagonal)
            mass += weights.sum(dim=2, keepdim=True)
            total.baddbmm_(weights, values[heads, columns])
        out[heads, rows], sums[heads, rows] = total.div_(mass), mass.log_() + peak
    return out, sums.squeeze(2)


def _largest(queries: Tensor, keys: Tensor, seen: "Seen") -> Tensor:
    """The largest score (heads, n, 1) of each query with the keys that it sees."""
    largest = torch.full_like(queries[:, :, :1], -torch.inf)
    for columns, diagonal in seen:
        scores = torch.bmm(queries, keys[:, columns].mT)
        if diagonal is not None:
            scores.masked_fill_(torch.ones_like(scores[0], dtype=torch.bool).triu_(diagonal + 1), -torch.inf)
        largest = torch.maximum(largest, scores.amax(dim=2, keepdim=True))
    return largest


Seen = list[tuple[slice, int | None]]
"""Blocks of keys that a block of queries meets; where not every query sees all of them, with the diagonal up to which
the lower triangle of scores counts."""


def blocks(queries: Tensor, keys: Tensor, *, causal: bool) -> Iterator[tuple[slice, slice, Seen]]:
    """Blocks of heads and queries with the keys they see, so that a block of scores has at most `_SCORES` elements.

    If `causal`, queries (heads, n, size) have the last n positions of the keys (heads, S, size).
    """
    count, length = queries.shape[1], keys.shape[1]
    width = min(length, _KEYS)
    heads = min(len(queries), max(1, _SCORES // (width * min(count, _KEYS))))
    height = max(1, _SCORES // (width * heads))
    for head in range(0, len(queries), heads):
        for start in range(0, count, height):
            first = length - count + start  # position of the block's first query
            end = min(length, first + height) if causal else length
            columns = [slice(left, min(left + width, end)) for left in range(0, end, width)]
            seen = [(each, first - each.start if causal and each.stop > first + 1 else None) for each in columns]
            yield slice(head, head + heads), slice(start, start + height), seen
