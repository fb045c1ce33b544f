"""Linear attention with a state that decays and learns by the delta rule, in float64 and in blocks of tokens.

Per sequence and head a state S (Kd, Vd) passes through the tokens in order. A token with key k, value v, decay d (one
for each channel of the keys, or one for all) and strength b makes it S = d S' + k u^T of S', u = b (v - (d S')^T k).
Asked with q it answers S^T q.

Let g be the logarithms of the decays summed since the start of a block, e^g k its faded keys and e^-g k its grown ones.
Then the u of the block's tokens solve (1 + b L) u = b (v - faded S0) for the state S0 before it, L the products of
faded keys with the grown keys of earlier tokens. All of that is made for all blocks at once, and so is the matrix by
which a block takes S0 to what remains of it; only this last step goes block by block.
"""

from dataclasses import dataclass
from math import log
from typing import Self

import torch
from torch import Tensor

from problems.inputs.values import Call

BLOCK = 64
"""Tokens of a block. Decays of channels may come to exp(-700) in it, which float64 holds; one for all to any."""

_LEAST_FADE = -600.0

_LONGEST = 9e5
"""The greatest length of a query or key in the regime where lengths differ."""


def in_length_regime(call: Call, name: str, rows: Tensor, *, least: float) -> Tensor:
    """Queries or keys `rows` (B, Ls, Hh, Kd); in a regime of lengths of all sizes from `least` up."""
    if not call.setting("short", usual=False):
        return rows
    shape = ("B", "Ls", "Hh", 1)
    logs = call.uniform(f"regime's lengths of {name}", shape, low=log(least), high=log(_LONGEST), dtype=torch.float32)
    wide = rows.float()
    scaled: Tensor = wide * (logs.exp() / wide.norm(dim=-1, keepdim=True))
    return scaled.to(rows.dtype)


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """Consecutive tokens of B sequences and H heads in N blocks, (N, B * H, BLOCK, .) each.

    Attributes:
        log_fade: logarithms of the decays since the block's start, the token's own included; (.., Kd) or (.., 1).
        keys: the keys (.., Kd).
        change: what u is for an empty state (.., Vd).
        recall: u for a state S0 is `change - recall @ S0` (.., Kd).
        layout: B, the number of tokens and H.
    """

    log_fade: Tensor
    keys: Tensor
    change: Tensor
    recall: Tensor
    layout: tuple[int, int, int]

    @classmethod
    def of(cls, *, keys: Tensor, values: Tensor, log_decay: Tensor, strength: Tensor) -> Self:
        """Tokens (B, T, H, .) in float64: keys (Kd), values (Vd), logarithms of decays (Kd or 1) and strengths (1)."""
        batch, tokens, heads, _ = keys.shape
        keys, values, log_decay, strength = map(_in_blocks, (keys, values, log_decay, strength))
        log_fade = log_decay.cumsum(dim=2)
        faded = keys * log_fade.exp()
        system = (strength * _products(keys, keys, log_fade)).tril_(-1)
        solved = torch.linalg.solve_triangular(system, strength[..., 0].diag_embed(), upper=False, unitriangular=True)
        return cls(
            log_fade=log_fade,
            keys=keys,
            change=solved @ values,
            recall=solved @ faded,
            layout=(batch, tokens, heads),
        )

    def states(self, first: Tensor) -> Tensor:
        """The states (N + 1, B * H, Kd, Vd) before every block and after the last; `first` is that before them all."""
        until_end = (self.keys * (self.log_fade[:, :, -1:] - self.log_fade).exp()).mT
        kept = (until_end @ self.recall).neg_()
        kept.diagonal(dim1=-2, dim2=-1).add_(self.log_fade[:, :, -1].exp())
        added = until_end @ self.change
        states = added.new_empty((len(added) + 1, *first.shape))
        states[0] = first
        for matrix, more, before, after in zip(kept, added, states[:-1], states[1:], strict=True):
            torch.baddbmm(more, matrix, before, out=after)
        return states

    def answers(self, queries: Tensor, states: Tensor) -> Tensor:
        """What the tokens (B, T, H, Kd) are answered, (B, T, H, Vd), by the states before their blocks."""
        before = states[:-1]
        asked = _in_blocks(queries)
        within = _products(asked, self.keys, self.log_fade).tril_()
        out = (asked * self.log_fade.exp()) @ before + within @ (self.change - self.recall @ before)
        batch, tokens, heads = self.layout
        by_token: Tensor = out.unflatten(1, (batch, heads)).permute(1, 0, 3, 2, 4).flatten(1, 2)
        return by_token[:, :tokens]


def _products(later: Tensor, keys: Tensor, log_fade: Tensor) -> Tensor:
    """Products of tokens with keys (N, B * H, BLOCK, Kd) that have faded since; of those below the diagonal only."""
    if log_fade.shape[-1] == 1 and log_fade.amin() < _LEAST_FADE:
        return (later @ keys.mT) * (log_fade - log_fade.mT).tril_().exp_()
    return (later * log_fade.exp()) @ (keys * (-log_fade).exp()).mT


def _in_blocks(tokens: Tensor) -> Tensor:
    """(B, T, H, d) as (N, B * H, BLOCK, d), the last block filled with zeros: tokens that change nothing."""
    if missing := -tokens.shape[1] % BLOCK:
        tokens = torch.nn.functional.pad(tokens, (0, 0, 0, 0, 0, missing))
    blocks: Tensor = tokens.unflatten(1, (-1, BLOCK)).permute(1, 0, 3, 2, 4).flatten(1, 2)
    return blocks
