"""Logits split over the vocabulary for problems under top-k and top-p, drawn so that rounding decides nothing.

Every token has 16 leading columns whose logits are drawn in common by all ranks; everything else is a rank's own
background, together about a thousandth of the mass. Of several draws a token takes the first whose cumulative
probabilities keep away from the top-p threshold, and whose last removed and first surviving
logits differ: which tokens survive is then beyond doubt in bfloat16 as in float64. Ties elsewhere remain. The columns
lie `stride` apart: all in one rank's shard for some tokens, all over for others.

Dimensions: nt tokens, V columns of which Vl on a rank.
"""

from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

from problems.values import Call

LEADERS = 16
DRAWS = 64
TOP_K = 10
TOP_P = 0.9
MARGIN = 0.01
BACKGROUND_MASS = 0.3
"""Expected sum of exponentials of the background; that of the leaders is some hundreds."""
LEADER_MEAN, LEADER_STD = 2.0, 1.5


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One rank's part of a call: `logits` (nt, Vl) in the run's dtype, `target` (nt,), and the filters."""

    logits: Tensor
    target: Tensor
    top_k: int | None
    top_p: float


def draw(call: Call) -> Draw:
    """The logits of the rank's columns, with targets and filters that all ranks share."""
    top_k, top_p = _filters(call)
    columns = _leading_columns(call)
    leaders = _leading_logits(call, has_top_k=top_k is not None)
    # A sum of n exponentials of normal values with mean m and variance 1 is about n * exp(m + 1/2).
    logits = call.normal("background", ("nt", "Vl"), mean=log(BACKGROUND_MASS / call.dims["V"]) - 0.5)
    _write_own_columns(logits, columns - call.rank * call.dims["Vl"], leaders)
    return Draw(logits=logits, target=_targets(call, columns, leaders), top_k=top_k, top_p=top_p)


def without_removed(logits: Tensor, top_k: int | None, top_p: float) -> Tensor:
    """`logits` (n, V) in float64 with minus infinity where a filter removes an entry.

    An entry survives top-p exactly when the mass of all entries up to it, in ascending order, exceeds 1 - top_p;
    the draws keep these masses away from the threshold.
    """
    wide = logits.double()
    if top_k is not None:
        threshold = wide.topk(top_k, dim=1).values[:, -1:]
        wide = wide.masked_fill(wide < threshold, -torch.inf)
    if top_p < 1:
        ascending, order = wide.sort(dim=1, stable=True)
        is_removed = ascending.softmax(dim=1).cumsum(dim=1) <= 1 - top_p
        is_removed[:, -1] = False
        wide = wide.masked_fill(torch.empty_like(is_removed).scatter_(1, order, is_removed), -torch.inf)
    return wide


def _filters(call: Call) -> tuple[int | None, float]:
    """Mostly top-k and top-p together; at three secret draws of sixteen without the one, the other or both."""
    branch = int(call.permutation("filters", 16, shared=True)[0])
    top_k = None if branch in (0, 1) else TOP_K
    top_p = 1.0 if branch in (1, 2) else TOP_P
    return top_k, top_p


def _leading_columns(call: Call) -> Tensor:
    """(nt, LEADERS) distinct columns: an arithmetic progression modulo V with random start and stride."""
    vocabulary = call.dims["V"]
    start = call.integers("start", ("nt", 1), low=0, high=vocabulary, shared=True)
    stride = call.integers("stride", ("nt", 1), low=1, high=vocabulary // LEADERS + 1, shared=True)
    steps = torch.arange(LEADERS, device=call.device)
    return (start + stride * steps) % vocabulary


def _leading_logits(call: Call, *, has_top_k: bool) -> Tensor:
    """(nt, LEADERS) logits in the run's dtype that keep the margin."""
    draws = call.normal("leaders", ("nt", DRAWS, LEADERS), mean=LEADER_MEAN, std=LEADER_STD, shared=True)
    weights = draws.double().sort(dim=-1).values.exp()
    if has_top_k:
        weights = weights.where(weights >= weights[..., -TOP_K, None], 0.0)
    clearance = _clearance(weights, rest=0.0 if has_top_k else BACKGROUND_MASS)
    # argmax takes the first of equals: the first draw that keeps the margin, or the one that comes nearest to it.
    chosen = clearance.clamp(max=MARGIN).argmax(dim=1)
    return draws[torch.arange(len(chosen), device=call.device), chosen]


def _clearance(ascending: Tensor, *, rest: float) -> Tensor:
    """How near the mass up to any entry comes to 1 - TOP_P, 0 where equal entries lie on both sides of it.

    `ascending` are weights in ascending order; `rest` is the mass below all of them.
    """
    mass = ascending.cumsum(-1) + rest
    mass = mass / mass[..., -1:]
    is_removed = mass <= 1 - TOP_P
    last_removed = ascending.where(is_removed, 0.0).amax(-1)
    first_kept = ascending.where(~is_removed, torch.inf).amin(-1)
    return (mass - (1 - TOP_P)).abs().amin(-1).where(last_removed < first_kept, 0.0)


def _write_own_columns(logits: Tensor, columns: Tensor, leaders: Tensor) -> None:
    """Put the leaders that lie in this rank's shard into `logits` (nt, Vl)."""
    token, place = ((columns >= 0) & (columns < logits.shape[1])).nonzero(as_tuple=True)
    logits[token, columns[token, place]] = leaders[token, place]


def _targets(call: Call, columns: Tensor, leaders: Tensor) -> Tensor:
    """(nt,) targets: a leader, the probable ones preferred; one time in eight any column."""
    by_probability = columns.gather(1, leaders.float().argsort(dim=1, descending=True, stable=True))
    draw = call.uniform("target place", ("nt",), dtype=torch.float32, shared=True)
    place = (draw.square() * LEADERS).long().clamp(max=LEADERS - 1)
    anywhere = call.integers("target", ("nt",), low=0, high=call.dims["V"], shared=True)
    is_anywhere = call.integers("target kind", ("nt",), low=0, high=8, shared=True) == 0
    return torch.where(is_anywhere, anywhere, by_probability.gather(1, place[:, None]).squeeze(1))
