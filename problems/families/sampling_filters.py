"""Logits split over the vocabulary for problems under top-k and top-p, drawn so that rounding decides nothing.

Every token has 16 leading columns whose logits are drawn in common by all ranks; everything else is a rank's own
background, together about a thousandth of the mass. Of several draws a token takes the first whose cumulative
probabilities keep away from the top-p threshold, and whose last removed and first surviving
logits differ: which tokens survive is then beyond doubt in bfloat16 as in float64. Ties elsewhere remain. The columns
lie `stride` apart: all in one rank's shard for some tokens, all over for others.

In a regime rows are nearly flat instead: hundreds of neighbouring columns share the mass, and top-p removes the rest.
With top-k they are equal, so that it leaves them all.

Dimensions: nt tokens, V columns of which Vl on a rank.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
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
LOWEST = -1e32
"""A finite logit of words that are masked; bfloat16 and float32 hold it."""
BELOW_EQUAL_LEADERS = -1.0
"""What is no leader is no larger where leaders are equal and the highest."""
HIGH_LEADERS, LOW = 5, -1e5
"""In a regime so many leaders are high, and the others equal and low, but above all that is no leader."""
NUCLEUS_SHARE, REMOVED_SHARE = 0.6, 0.3
"""Of 1 - top_p: what a logit of a wide nucleus has of the mass at the least, about, and what all others have."""
NUCLEUS_SPREAD = 0.5
"""How far the logits of a wide nucleus, and those of the rest, lie apart at most."""


_CANDIDATES = LEADERS + 1
"""Largest logits looked at per token: the filters leave no more than the leaders."""

_GROUP = 64
"""Columns whose largest logit stands for them all in the search for candidates."""

_BLOCK_ELEMENTS = 1 << 25


@dataclass(frozen=True, kw_only=True)
class Nucleus:
    """The columns that top-p leaves of nearly flat rows: `count` (nt, 1) neighbours from `start` (nt, 1) on.

    The last column of the `vocabulary` is a neighbour of the first. All have the mass of `weight` (nt, 1) of them: what
    they lack is the first one's.
    """

    start: Tensor
    count: Tensor
    weight: Tensor
    vocabulary: int

    def has(self, first: int, width: int) -> Tensor:
        """Which of `width` columns from `first` on they are, (nt, width) bool."""
        columns = torch.arange(first, first + width, device=self.start.device)
        return (columns - self.start) % self.vocabulary < self.count


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """What all ranks share in a call: columns and logits of the leaders (nt, LEADERS), targets (nt,), the filters.

    Where rows are `flat`, all logits of a token are that of its first leader, and none is filtered. Where there is a
    `nucleus`, no column leads.
    """

    columns: Tensor
    leaders: Tensor
    target: Tensor
    top_k: int | None
    top_p: float
    is_flat: bool
    nucleus: Nucleus | None = None


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
    nucleus = _nucleus(call, top_k=top_k, top_p=top_p) if call.setting("nucleus", usual=False) else None
    columns = _leading_columns(call)
    leaders = _leading_logits(call, top_k=top_k, top_p=top_p)
    equal = call.setting("equal_leaders", None)
    if equal == "highest":
        leaders = _equal(call, leaders)
    if equal == "lowest":
        leaders = leaders.index_fill(1, torch.arange(HIGH_LEADERS, LEADERS, device=call.device), LOW)
    if (higher_by := call.setting("higher_by", None)) is not None:
        leaders = leaders + higher_by
    return Tokens(
        columns=columns,
        leaders=leaders,
        target=_targets(call, columns, leaders) if nucleus is None else _targets_around(call, nucleus),
        top_k=top_k,
        top_p=top_p,
        is_flat=call.setting("flat", usual=False) or call.setting("rows", "usual") == "flat",
        nucleus=nucleus,
    )


def _equal(call: Call, leaders: Tensor) -> Tensor:
    """`leaders` (nt, LEADERS), all as high as the first of them or zero; in half the tokens all zero, of both signs.

    The background stays below zero then, so no more than the leaders survives.
    """
    zeros = torch.zeros_like(leaders)
    zeros[:, ::5] = -0.0
    is_zero = call.integers("zero leaders", ("nt", 1), low=0, high=2, shared=True) == 0
    return torch.where(is_zero, zeros, leaders[:, :1].clamp(min=0.0))


def chunk_size(call: Call) -> int:
    """That of the size; in a regime the number of ranks, the least with which W divides a chunk, or beyond all rows."""
    style, world_size, batch = call.setting("chunk", None), call.world_size, call.dims["B"]
    step = world_size // gcd(world_size, batch)  # of chunk sizes with which W divides the tokens of a chunk
    if style == "whole":
        rows = call.dims["S"]
        return rows + step * int(call.integers("beyond all rows", (), low=1, high=rows // step + 2, shared=True))
    return {None: call.dims.get("cs", 1), "small": world_size, "least": 0 if step == 1 else step}[style]


def shard(call: Call, drawn: Tokens) -> Tensor:
    """The logits of the rank's columns (nt, Vl) in the run's dtype."""
    if drawn.is_flat:
        return drawn.leaders[:, :1].expand(-1, call.dims["Vl"]).contiguous()
    if drawn.nucleus is not None:
        return _nearly_flat(call, drawn.nucleus, drawn.top_p)
    # A sum of n exponentials of normal values with mean m and variance 1 is about n * exp(m + 1/2).
    logits = call.normal("background", ("nt", "Vl"), mean=log(BACKGROUND_MASS / call.dims["V"]) - 0.5)
    equal = call.setting("equal_leaders", None)
    if equal == "highest":
        logits.clamp_(max=BELOW_EQUAL_LEADERS)
    if equal == "lowest":
        logits.fill_(LOWEST)
    if (higher_by := call.setting("higher_by", None)) is not None:
        logits += higher_by
    _mask(call, logits)
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
    if drawn.nucleus is not None:
        return _survivors_of(drawn.nucleus, shards, drawn)
    is_whole = drawn.top_k is None or drawn.is_flat
    largest, first = [], 0
    mass = torch.zeros(len(drawn.target), dtype=torch.float64, device=drawn.target.device)
    target = torch.zeros_like(mass)
    for logits in shards:
        largest.append(_largest(logits, _CANDIDATES))
        if is_whole:
            mass += _mass(logits)
        target = _picked(logits, drawn.target - first, target)
        first += logits.shape[1]
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


def _survivors_of(nucleus: Nucleus, shards: Iterable[Tensor], drawn: Tokens) -> Survivors:
    """What survives where it is known beforehand: all of the nucleus, and nothing else."""
    first = 0
    mass = torch.zeros(len(drawn.target), dtype=torch.float64, device=drawn.target.device)
    rest, target, least = torch.zeros_like(mass), torch.zeros_like(mass), torch.full_like(mass, torch.inf)
    for logits in shards:
        is_kept = nucleus.has(first, logits.shape[1])
        mass += _mass(logits.masked_fill(~is_kept, -torch.inf))
        rest += _mass(logits.masked_fill(is_kept, -torch.inf))
        least = torch.minimum(least, logits.masked_fill(~is_kept, torch.inf).amin(dim=1).double())
        target = _picked(logits, drawn.target - first, target)
        first += logits.shape[1]
    threshold = (1 - drawn.top_p) * (mass + rest)
    if not bool(((rest < threshold / 2) & (threshold < rest + least.exp())).all()):
        raise RuntimeError("top-p leaves more or less than the nucleus of a token")
    return Survivors(least=least, log_mass=mass.log(), target=target)


def _picked(logits: Tensor, column: Tensor, elsewhere: Tensor) -> Tensor:
    """The entry `column` (n,) of every row (n, .) in float64; `elsewhere` (n,) where there is none."""
    is_here = (column >= 0) & (column < logits.shape[1])
    picked = logits.gather(1, column.clamp(0, logits.shape[1] - 1)[:, None])[:, 0]
    return torch.where(is_here, picked.double(), elsewhere)


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


def _nucleus(call: Call, *, top_k: int | None, top_p: float) -> Nucleus:
    """Per token, half as many columns or more as `top_p` surely leaves of the vocabulary, from a secret one on.

    For half of the tokens they have the mass of as many as it leaves of any vocabulary, unless `top_k` leaves but one.
    """
    vocabulary, surely = call.dims["V"], NUCLEUS_SHARE / (1 - top_p)
    most = min(vocabulary, int(surely))
    count = call.integers("nucleus count", ("nt", 1), low=most // 2 + 1, high=most + 1, shared=True)
    is_led = call.integers("nucleus kind", ("nt", 1), low=0, high=2, shared=True) == 1
    if top_k == 1:
        is_led = torch.zeros_like(is_led)
    return Nucleus(
        start=call.integers("nucleus start", ("nt", 1), low=0, high=vocabulary, shared=True),
        count=count,
        weight=torch.where(is_led, surely, count),
        vocabulary=vocabulary,
    )


def _nearly_flat(call: Call, nucleus: Nucleus, top_p: float) -> Tensor:
    """The logits of the rank's columns (nt, Vl): top-p removes all but the nucleus, by a wide margin."""
    width = call.dims["Vl"]
    spread = call.uniform("nearly flat", ("nt", "Vl"), high=NUCLEUS_SPREAD, dtype=torch.float32)
    # The exponential of a uniform number up to a half is 1.3 on average; removed logits are below their highest.
    removed = REMOVED_SHARE * (1 - top_p) * 1.3 * nucleus.weight / (nucleus.vocabulary - nucleus.count).clamp(min=1)
    is_kept = nucleus.has(call.rank * width, width)
    is_first = replace(nucleus, count=torch.ones_like(nucleus.count)).has(call.rank * width, width)
    lacking = 1.3 * (nucleus.weight - nucleus.count)
    low = (spread - NUCLEUS_SPREAD + LEADER_MEAN + removed.log()).to(call.dtype)
    _mask(call, low)
    mass = torch.full_like(spread, 1.3) if call.setting("nucleus", usual=True) == "equal" else spread.exp()
    high = (mass + lacking * is_first).log() + LEADER_MEAN
    return torch.where(is_kept, high.to(call.dtype), low)


def _mask(call: Call, logits: Tensor) -> None:
    """Where the regime masks words, take every second of `logits` (nt, Vl) from the draws."""
    if (how := call.setting("masked", None)) is not None:
        logits[:, 1::2] = LOWEST if how == "by_a_number" else -torch.inf


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


def _targets_around(call: Call, nucleus: Nucleus) -> Tensor:
    """(nt,) targets: half of them in the nucleus, half of them any column."""
    draw = call.uniform("target place", ("nt", 1), dtype=torch.float32, shared=True)
    inside = (nucleus.start + (draw * nucleus.count).long().clamp(max=nucleus.count - 1)) % nucleus.vocabulary
    anywhere = call.integers("target", ("nt",), low=0, high=nucleus.vocabulary, shared=True)
    is_anywhere = call.integers("target kind", ("nt",), low=0, high=2, shared=True) == 0
    return torch.where(is_anywhere, anywhere, inside.squeeze(1))
