"""Logits split over the vocabulary for problems under top-k and top-p, drawn so that rounding decides nothing.

Every token has 16 leading columns whose logits are drawn in common by all ranks; everything else is a rank's own
background, together about a thousandth of the mass. Of several draws a token takes the first whose cumulative
probabilities keep away from the top-p threshold, and whose last removed and first surviving
logits differ: which tokens survive is then beyond doubt in bfloat16 as in float64. Ties elsewhere remain. The columns
lie `stride` apart: all in one rank's shard for some tokens, all over for others.

Dimensions: nt tokens, V columns of which Vl on a rank.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import gcd, log

import torch
from torch import Tensor

from problems.inputs.values import Call

LEADERS = 16
DRAWS = 64
TOP_K = 10
TOP_P = 0.9
"""The filters of timed calls; a regime may set others."""
MARGIN = 0.01
BACKGROUND_MASS = 0.3
"""Expected sum of exponentials of the background; that of the leaders is some hundreds."""
LEADER_MEAN, LEADER_STD = 2.0, 1.5


_CANDIDATES = LEADERS + 1
"""Largest logits looked at per token: the filters leave no more than the leaders."""

_GROUP = 64
"""Columns whose largest logit stands for them all in the search for candidates."""

_BLOCK_ELEMENTS = 1 << 25


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """What all ranks share in a call: columns and logits of the leaders (nt, LEADERS), targets (nt,), the filters.

    Where rows are `flat`, all logits of a token are that of its first leader, and none is filtered.
    """

    columns: Tensor
    leaders: Tensor
    target: Tensor
    top_k: int | None
    top_p: float
    is_flat: bool


@dataclass(frozen=True, kw_only=True)
class Survivors:
    """What the filters leave of every token's logits, in float64 (nt,).

    Attributes:
        least: the smallest logit that survives; minus infinity where nothing is filtered.
        log_mass: logarithm of the sum of the exponentials of all that survive.
        target: the target's logit, whether or not it survives.
    """

    least: Tensor
    log_mass: Tensor
    target: Tensor

    def log_probs(self) -> Tensor:
        """Log-probabilities of the targets, minus infinity where they are removed."""
        return (self.target - self.log_mass).where(self.target >= self.least, -torch.inf)


def tokens(call: Call) -> Tokens:
    """The leaders, targets and filters of `call`."""
    top_k, top_p = _filters(call)
    columns = _leading_columns(call)
    leaders = _leading_logits(call, top_k=top_k, top_p=top_p)
    if call.setting("equal_leaders", usual=False):
        leaders = leaders[:, :1].expand(-1, LEADERS).contiguous()
    if (higher_by := call.setting("higher_by", None)) is not None:
        leaders = leaders + higher_by
    return Tokens(
        columns=columns,
        leaders=leaders,
        target=_targets(call, columns, leaders),
        top_k=top_k,
        top_p=top_p,
        is_flat=call.setting("flat", usual=False),
    )


def shard(call: Call, drawn: Tokens) -> Tensor:
    """The logits of the rank's columns (nt, Vl) in the run's dtype."""
    if drawn.is_flat:
        return drawn.leaders[:, :1].expand(-1, call.dims["Vl"]).contiguous()
    # A sum of n exponentials of normal values with mean m and variance 1 is about n * exp(m + 1/2).
    logits = call.normal("background", ("nt", "Vl"), mean=log(BACKGROUND_MASS / call.dims["V"]) - 0.5)
    if call.setting("masked", usual=False):
        logits[:, 1::2] = -torch.inf
    _write_own_columns(logits, drawn.columns - call.rank * call.dims["Vl"], drawn.leaders)
    return logits


def shards(call: Call, drawn: Tokens) -> Iterator[Tensor]:
    """The logits of all ranks, one rank at a time."""
    return (shard(call.at_rank(rank), drawn) for rank in range(call.world_size))


def survivors(shards: Iterable[Tensor], drawn: Tokens) -> Survivors:
    """What survives of rows whose `shards` (nt, Vl) come in the order of their columns.

    Top-k keeps what is at least the k-th largest logit. An entry survives top-p where the mass of all larger ones is
    below `top_p`; the draws keep these masses away from the threshold.

    Raises:
        RuntimeError: more survives than is looked at, so the draws are not what they should be.
    """
    is_whole = drawn.top_k is None or drawn.is_flat
    largest, first = [], 0
    mass = torch.zeros(len(drawn.target), dtype=torch.float64, device=drawn.target.device)
    target = torch.zeros_like(mass)
    for logits in shards:
        largest.append(_largest(logits, _CANDIDATES))
        if is_whole:
            mass += _mass(logits)
        column = drawn.target - first
        first += logits.shape[1]
        is_here = (column >= 0) & (column < logits.shape[1])
        picked = logits.gather(1, column.clamp(0, logits.shape[1] - 1)[:, None])[:, 0]
        target = torch.where(is_here, picked.double(), target)
    if is_whole and (drawn.top_p >= 1 or drawn.is_flat):
        return Survivors(least=torch.full_like(mass, -torch.inf), log_mass=mass.log(), target=target)
    descending = torch.cat(largest, dim=1).topk(_CANDIDATES, dim=1).values.double()
    weights = descending.exp()
    is_kept = torch.ones_like(weights, dtype=torch.bool)
    if drawn.top_k is not None:
        is_kept = descending >= descending[:, drawn.top_k - 1, None]
        mass = weights.where(is_kept, 0.0).sum(dim=1)
    if drawn.top_p < 1:
        is_kept &= weights.cumsum(dim=1) - weights < drawn.top_p * mass[:, None]
        mass = weights.where(is_kept, 0.0).sum(dim=1)
    if is_kept[:, -1].any():
        raise RuntimeError(f"more than {LEADERS} logits of a token survive the filters")
    return Survivors(least=descending.where(is_kept, torch.inf).amin(dim=1), log_mass=mass.log(), target=target)


def row_blocks(rows: Tensor) -> Iterator[slice]:
    """Blocks of rows (n, .) of which a few float64 copies take little memory."""
    step = max(1, _BLOCK_ELEMENTS // rows.shape[1])
    return (slice(start, start + step) for start in range(0, len(rows), step))


def _largest(logits: Tensor, count: int) -> Tensor:
    """The `count` largest values of every row (n, .), or all.

    They are all found in the `count` groups of columns with the largest maxima: whatever lies in another group has as
    many values before it.
    """
    groups = logits.unflatten(1, (-1, gcd(_GROUP, logits.shape[1])))
    if groups.shape[1] > count:
        best = groups.amax(dim=2).topk(count, dim=1, sorted=False).indices
        logits = groups.gather(1, best[:, :, None].expand(-1, -1, groups.shape[2])).flatten(1)
    return logits.topk(min(count, logits.shape[1]), dim=1, sorted=False).values


def _mass(logits: Tensor) -> Tensor:
    """The sum of the exponentials of every row (n, .), in float64."""
    return torch.cat([logits[block].double().exp_().sum(dim=1) for block in row_blocks(logits)])


def _filters(call: Call) -> tuple[int | None, float]:
    """Mostly top-k and top-p together; at three secret draws of sixteen without the one, the other or both.

    In a regime both are there, with the numbers that it names; where it names None, there is no top-k.
    """
    if call.regime is not None:
        number = call.setting("top_k", TOP_K)
        return None if number is None else int(number), float(call.setting("top_p", TOP_P))
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


def _leading_logits(call: Call, *, top_k: int | None, top_p: float) -> Tensor:
    """(nt, LEADERS) logits in the run's dtype that keep the margin; without top-p that of the usual one."""
    draws = call.normal("leaders", ("nt", DRAWS, LEADERS), mean=LEADER_MEAN, std=LEADER_STD, shared=True)
    weights = draws.sort(dim=-1).values.double().exp_()
    if top_k is not None:
        weights = weights.where(weights >= weights[..., -top_k, None], 0.0)
    threshold = 1 - (top_p if top_p < 1 else TOP_P)
    clearance = _clearance(weights, threshold, rest=BACKGROUND_MASS if top_k is None else 0.0)
    # argmax takes the first of equals: the first draw that keeps the margin, or the one that comes nearest to it.
    chosen = clearance.clamp(max=MARGIN).argmax(dim=1)
    return draws[torch.arange(len(chosen), device=call.device), chosen]


def _clearance(ascending: Tensor, threshold: float, *, rest: float) -> Tensor:
    """How near the mass up to any entry comes to `threshold`, 0 where equal entries lie on both sides of it.

    `ascending` are weights in ascending order; `rest` is the mass below all of them.
    """
    mass = ascending.cumsum(-1) + rest
    mass = mass / mass[..., -1:]
    is_removed = mass <= threshold
    last_removed = ascending.where(is_removed, 0.0).amax(-1)
    first_kept = ascending.where(~is_removed, torch.inf).amin(-1)
    return (mass - threshold).abs().amin(-1).where(last_removed < first_kept, 0.0)


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
