"""Which regimes meet in one call: few calls that together hold most pairs of a problem's regimes, secretly drawn."""

from collections.abc import Sequence
from functools import reduce
from itertools import combinations
from random import Random

from problems.spec.schema import Regime

MOST_JOINED = 3
"""In more regimes at once, one would more often hide what the others do."""

_HIDING = 0.3
"""How often a call begins with a regime that hides what another does, while there are other pairs."""

Pair = frozenset[str]


def pairs(regimes: Sequence[Regime]) -> set[Pair]:
    """The names of all two regimes that one call can be in."""
    return {frozenset((one.name, other.name)) for one, other in combinations(regimes, 2) if one.fits(other)}


def covering(regimes: Sequence[Regime], count: int, random: Random) -> list[tuple[Regime, ...]]:
    """At most `count` calls in several regimes each, which together hold as many pairs as a greedy choice finds.

    Each begins with a pair that no call before holds, mostly one in which neither hides the other. It takes in what
    fits and brings most new pairs. Much of it is drawn, so nobody can tell which pairs a judgement leaves out.
    """
    missing = pairs(regimes)
    calls: list[tuple[Regime, ...]] = []
    while missing and len(calls) < count:
        call: list[Regime] = []
        while len(call) < MOST_JOINED and (found := _most_new(call, regimes, missing, random)):
            call += found
        missing -= {frozenset((one.name, other.name)) for one, other in combinations(call, 2)}
        calls.append(tuple(call))
    return calls


def _most_new(
    call: Sequence[Regime], regimes: Sequence[Regime], missing: set[Pair], random: Random
) -> Sequence[Regime]:
    """What a call takes in next: the pair in most missing pairs at first, then one regime; nothing where none fits."""
    open_pairs = {regime.name: sum(regime.name in pair for pair in missing) for regime in regimes}
    if not call:
        by_name = {regime.name: regime for regime in regimes}
        prefers_hiding = random.random() < _HIDING
        best = max(
            (
                any(by_name[name].hides for name in pair) == prefers_hiding,
                sum(open_pairs[name] for name in pair) * random.uniform(0.5, 1.0),
                pair,
            )
            for pair in sorted(map(sorted, missing))  # the same for a seed in every process
        )
        return [by_name[name] for name in best[-1]]
    if any(regime.hides for regime in call):
        return ()
    new = [
        (sum(frozenset((regime.name, known.name)) in missing for known in call), random.random(), regime.name, regime)
        for regime in regimes
        if regime not in call and not regime.hides and all(regime.fits(known) for known in call)
    ]
    return [max(new)[-1]] if new and max(new)[0] else ()


def joined(call: Sequence[Regime]) -> Regime:
    """The one regime of a call in several."""
    return reduce(Regime.joined, call)
