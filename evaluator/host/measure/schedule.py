"""How many calls an evaluation makes, of which kinds and where: fixed counts in a secret order."""

import math
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from evaluator.contract import CallKind, Mode
from evaluator.host.job import Job
from evaluator.host.measure import covering
from evaluator.host.settings import JudgeSettings
from evaluator.judging.checks import Check
from problems.spec.memory import held_bytes
from problems.spec.schema import Regime

_PLANNED_BLOCKS = 12
"""The number of blocks in one secret plan; a longer series draws further plans."""

_SHARE, _FEWER_HOLD = 4, 1_000_000
"""A short check has one of so many joined calls and large calls; what a call holds on a rank, in bytes, to be small."""

_SOON_BLOCKS = 3
"""Three of four regimes are drawn in the first blocks, which every series has; the fourth in any block."""


def drawn_regimes(job: Job) -> dict[str, tuple[Regime, ...]]:
    """What checked calls differ in, by size: at the first each regime alone and most pairs, at others a few calls."""
    if job.request.regime or job.mode is Mode.PUBLISHED or not job.does(Check.REGIMES):
        return {}
    found: dict[str, tuple[Regime, ...]] = {}
    random, settings = secrets.SystemRandom(), job.settings
    for size in job.sizes:
        regimes = job.problem.regimes_at(size, job.profile.world_size, job.dtype)
        joined = math.ceil(max(settings.joined_regimes, 2 * len(regimes)) / (_SHARE if settings.is_short else 1))
        count = settings.further_regimes if found else joined
        calls = [covering.joined(call) for call in covering.covering(regimes, count, random)]
        calls += random.sample(regimes, min(max(0, count - len(calls)), len(regimes))) if found else regimes
        drawn = [regime.drawn(random) for regime in random.sample(calls, len(calls))]
        found[size] = tuple(_fewer(drawn, size, job) if settings.is_short else drawn)
    return found


def _fewer(drawn: Sequence[Regime], size: str, job: Job) -> list[Regime]:
    """Those of a short check: small joined ones that hide nothing, what these do not show, and few large ones."""
    dims = [job.problem.dims(size, job.profile.world_size, call) for call in drawn]
    small = [call for call, its in zip(drawn, dims, strict=True) if held_bytes(job.problem, its) <= _FEWER_HOLD]
    joined = [call for call in small if call.parts and not any(part.hides for part in call.parts)]
    shown = {part.name.partition(":")[0] for call in joined for part in call.parts}
    alone = [call for call in drawn if not call.parts and call.name.partition(":")[0] not in shown]
    return joined + [call for call in alone if call in small or not secrets.randbelow(_SHARE)]


def check_kinds(count: int, *, job: Job) -> list[CallKind]:
    """The kinds of `count` calls that are not timed: the first is plain, the special ones lie in secret order."""
    kinds = _special_kinds(job)  # four skewed ones, so every rank is late in two of them; in one where a check is short
    special = [*kinds, *kinds[:1] * (1 if job.settings.is_short else 3)][: max(0, count - 1)]
    rest = [*special, *[CallKind.PLAIN] * (count - 1 - len(special))]
    secrets.SystemRandom().shuffle(rest)
    return [CallKind.PLAIN, *rest][:count]


def check_calls(count: int, *, regimes: Sequence[Regime], job: Job) -> list[tuple[CallKind, Regime | None]]:
    """The calls of a size without timing: `count` as `check_kinds` gives them, and one in every regime.

    A near call follows a plain one. Where a regime makes all values equal, a near call would change nothing, and stale
    output would be correct. A skewed call may end with other inputs, which a cache of the last ones would then hold.
    """
    first, *rest = [(kind, None) for kind in check_kinds(count, job=job)]
    near = [call for call in rest if call[0] is CallKind.NEAR]
    mixed = [*(call for call in rest if call not in near), *((CallKind.REGIME, regime) for regime in regimes)]
    secrets.SystemRandom().shuffle(mixed)
    planned = [first, *mixed]
    for call in near:
        plain = [place for place, (kind, _) in enumerate(planned) if kind is CallKind.PLAIN]
        planned.insert(1 + secrets.choice(plain), call)
    return planned


@dataclass(frozen=True, kw_only=True)
class TimedCall:
    """One timed call of a series: whether it is compared, and which special call and regimes come before it."""

    is_checked: bool
    special: CallKind | None
    regimes: tuple[Regime, ...] = ()


def timed_calls(*, block_calls: int, checks: int, job: Job, regimes: Sequence[Regime] = ()) -> Iterator[TimedCall]:
    """The timed calls of an endless series: `block_calls` per block, `checks` compared in every 12 blocks.

    Special calls, and one call in each of `regimes`, come between them at secret indices, never before a block's first.
    """
    indices = _regime_indices(block_calls, regimes)
    for index, call in enumerate(_planned(block_calls=block_calls, checks=checks, job=job)):
        yield replace(call, regimes=tuple(indices.get(index, ())))
    while True:
        yield from _planned(block_calls=block_calls, checks=checks, job=job)


def _regime_indices(block_calls: int, regimes: Sequence[Regime]) -> dict[int, list[Regime]]:
    # Those of a block come one after the other: what disturbs its timed calls comes once.
    places = [_within(block, block_calls) for block in range(_PLANNED_BLOCKS)]
    indices: dict[int, list[Regime]] = {}
    for regime in regimes:
        block = secrets.randbelow(_SOON_BLOCKS if secrets.randbelow(4) else _PLANNED_BLOCKS)
        indices.setdefault(places[block], []).append(regime)
    return indices


def _planned(*, block_calls: int, checks: int, job: Job) -> list[TimedCall]:
    total = _PLANNED_BLOCKS * block_calls
    is_checked = job.does(Check.TIMED_CALLS)
    checked = frozenset(secrets.SystemRandom().sample(range(total), min(total, checks))) if is_checked else frozenset()
    special = _special_indices(block_calls, job=job) if is_checked else {}
    return [TimedCall(is_checked=index in checked, special=special.get(index)) for index in range(total)]


def _special_indices(block_calls: int, *, job: Job) -> dict[int, CallKind]:
    kinds = _special_kinds(job)
    if not kinds:
        return {}
    count = min(_PLANNED_BLOCKS, job.profile.timing_policy.special_calls)
    order = [kinds[index % len(kinds)] for index in range(count)]
    secrets.SystemRandom().shuffle(order)
    blocks = sorted(secrets.SystemRandom().sample(range(_PLANNED_BLOCKS), count))
    return dict(zip((_within(block, block_calls) for block in blocks), order, strict=True))


def _within(block: int, block_calls: int) -> int:
    """A secret index in a block, but for its first."""
    return block * block_calls + (1 + secrets.randbelow(block_calls - 1) if block_calls > 1 else 0)


def full_checks(total: int, *, comparing_s: float, settings: JudgeSettings) -> int:
    """How many of `total` timed calls are compared in full: one in ten, or as many as time allows."""
    wanted = max(settings.full_checks, -(-total // 10))
    affordable = int(settings.checks_s / max(comparing_s, 1e-9))
    return min(total, max(settings.least_checks, min(wanted, affordable)))


def _special_kinds(job: Job) -> list[CallKind]:
    needs = {CallKind.SKEWED: Check.SKEWED_STARTS, CallKind.NEAR: Check.NEAR_INPUTS}
    return [kind for kind, check in needs.items() if job.does(check)]


@dataclass(frozen=True, kw_only=True)
class Phases:
    """How many calls a block has: `reference` in each of its two phases of the reference, `candidate` between them."""

    reference: int
    candidate: int


def phases(
    reference_s: float, turn_s: float, candidate_s: float, *, budget_s: float, settings: JudgeSettings
) -> Phases:
    """Phases of about `phase_s` of reference time each, so that 12 blocks fit into `budget_s` where calls are short.

    A submission has as many calls a block as the reference, unless it holds the ranks more than twice as long.

    Args:
        reference_s: what a call of the reference takes.
        turn_s: how long such a call occupies the ranks, with making its inputs.
        candidate_s: what a call of the submission takes.
        budget_s: how long the series may hold the ranks.
        settings: the bounds.
    """
    block_s = budget_s / _PLANNED_BLOCKS
    most = min(settings.max_phase_calls, round(block_s / (4 * max(turn_s, 1e-9))))
    calls = max(settings.min_phase_calls, min(most, math.ceil(settings.phase_s / max(reference_s, 1e-9))))
    longer_s = candidate_s - reference_s
    if longer_s <= turn_s:
        return Phases(reference=calls, candidate=2 * calls)
    return Phases(reference=calls, candidate=max(1, min(2 * calls, int(block_s / 2 / (turn_s + longer_s)))))
