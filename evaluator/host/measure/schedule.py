"""How many calls an evaluation makes, of which kinds and where: counts fixed beforehand, places secret."""

import math
import secrets

from evaluator.contract import CallKind
from evaluator.host.measure.calls import Conduct
from evaluator.host.settings import JudgeSettings
from evaluator.judging.checks import Check

_MOST_BURST_BYTES = 2 * 1024**3
"""What the contents and outputs of a burst may be together.

Of a GPU's memory they take up to four times as much, five where lengths vary: shared, waiting and held, with room.
"""

_MOST_BURST_S = 0.1
"""How long the reference would need for a burst at most, but for two calls."""


def check_kinds(count: int, *, conduct: Conduct) -> list[CallKind]:
    """The kinds of `count` calls that are not timed: the first is plain, the special ones lie in secret order."""
    special = _special_kinds(conduct)[: max(0, count - 1)]
    rest = [*special, *[CallKind.PLAIN] * (count - 1 - len(special))]
    secrets.SystemRandom().shuffle(rest)
    return [CallKind.PLAIN, *rest][:count]


def special_plan(*, blocks: int, of_blocks: int, block_calls: int, conduct: Conduct) -> dict[int, CallKind]:
    """Before which of a series' timed calls a special call is made, and of which kind; never before a block's first.

    A series of `blocks` out of `of_blocks` has its part of the special calls.
    """
    kinds = _special_kinds(conduct)
    if not kinds or block_calls < 2:
        return {}
    count = min(blocks, math.ceil(conduct.vigilance.special_calls * blocks / of_blocks))
    chosen = sorted(secrets.SystemRandom().sample(range(blocks), count))
    order = [kinds[place % len(kinds)] for place in range(count)]
    secrets.SystemRandom().shuffle(order)
    places = [block * block_calls + 1 + secrets.randbelow(block_calls - 1) for block in chosen]
    return dict(zip(places, order, strict=True))


def _special_kinds(conduct: Conduct) -> list[CallKind]:
    needs = {CallKind.SKEWED: Check.SKEWED_STARTS, CallKind.NEAR: Check.NEAR_CONTENTS}
    return [kind for kind, check in needs.items() if conduct.does(check)]


def burst_calls(payload_bytes: int, reference_s: float, *, most: int) -> int:
    """How many calls a burst has, at least two; 0 for none.

    A call takes in and gives back `payload_bytes` a rank. Where two of them need more memory than bursts may have, a
    call is so long that what surrounds a single one hides little of it.
    """
    by_memory = _MOST_BURST_BYTES // max(1, payload_bytes)
    by_time = int(_MOST_BURST_S / max(reference_s, 1e-9))
    return max(2, min(most, by_memory, by_time)) if by_memory >= 2 else 0


def leg_calls(reference_s: float, turn_s: float, settings: JudgeSettings, *, blocks: int, is_practice: bool) -> int:
    """How many calls a leg has: about `leg_s` of reference time within the settings' bounds.

    A call of the reference takes `reference_s` seconds, and holds the ranks for `turn_s` with the contents made for it;
    all `blocks` where speed is ranked hold them no longer than about `series_s`.
    """
    least, most = settings.min_leg_calls, settings.max_leg_calls
    if is_practice:
        least, most = settings.practice_min_leg_calls, settings.practice_max_leg_calls
    else:
        most = min(most, round(settings.series_s / (4 * blocks * max(turn_s, 1e-9))))
    return max(least, min(most, math.ceil(settings.leg_s / max(reference_s, 1e-9))))
