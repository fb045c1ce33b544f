"""Reads what a rank noted of its collectives: untrusted text, which shows the author where ranks wait."""

import re
from collections.abc import Sequence

import msgspec

from evaluator.contract import Collective

_MOST = 8
_MOST_RANKS = 64
_NAME = re.compile(r"[\w.:>\- ]{1,64}|recv \d{1,4}<-\d{1,4}")
_PAIRWISE = re.compile(r"(send|recv) (\d+)(?:->|<-)(\d+)")
"""How NCCL's recorder names sends and receives: the rank of its own first, then its peer."""
_TENSORS = re.compile(r"[\w\[\], ]{0,80}")


def read(text: str) -> tuple[Collective, ...]:
    """The collectives in `text`; none where our code did not write it."""
    try:
        found = msgspec.json.decode(text, type=tuple[Collective, ...])
    except (msgspec.ValidationError, msgspec.DecodeError):
        return ()
    return found if len(found) <= _MOST and all(map(_is_plain, found)) else ()


def _is_plain(one: Collective) -> bool:
    return (
        _NAME.fullmatch(one.operation) is not None
        and _TENSORS.fullmatch(one.tensors) is not None
        and len(one.ranks) <= _MOST_RANKS
        and all(0 <= rank < _MOST_RANKS for rank in one.ranks)
        and 0 <= (one.number or 0) < 2**63
        and 0 <= one.sequence < 2**63
    )


def pending(collectives: Sequence[Collective]) -> Collective | None:
    """The oldest that has not finished."""
    return next((one for one in collectives if not one.is_done), None)


def are_apart(waiting: Sequence[Sequence[Collective]]) -> bool:
    """Whether ranks of one group, each with what it has not finished there, wait in different operations.

    Two different collectives show it. Sends and receives show it only where all ranks of the group wait, and no two
    ranks are the two ends of the same transfer.
    """
    oldest = [ones[0] for ones in waiting]
    collective = [one for one in oldest if not _PAIRWISE.fullmatch(one.operation)]
    if len({(one.operation, one.sequence) for one in collective}) > 1:
        return True
    ends = [end for ones in waiting for end in _open_ends(ones)]
    has_pairs = len(collective) < len(oldest)
    return has_pairs and len(waiting) == len(oldest[0].ranks) and len(set(ends)) == len(ends)


def _open_ends(ones: Sequence[Collective]) -> set[tuple[str, str]]:
    """From whom to whom a rank's oldest sends and receives with each peer go; those of one batch share a sequence."""
    first: dict[str, int] = {}
    ends: set[tuple[str, str]] = set()
    for one in ones:
        if pair := _PAIRWISE.fullmatch(one.operation):
            kind, own, peer = pair.groups()
            if first.setdefault(peer, one.sequence) == one.sequence:
                ends.add((own, peer) if kind == "send" else (peer, own))
    return ends


def words(collectives: Sequence[Collective], *, world_size: int) -> str:
    """The collective that a rank waits in, else the last that it finished."""
    waiting = pending(collectives)
    if waiting is not None:
        return _one(waiting, world_size=world_size)
    if not collectives:
        return ""
    last = collectives[-1]
    return "no collective in the call" if last.number == 0 else f"its last: {_one(last, world_size=world_size)}"


def _one(one: Collective, *, world_size: int) -> str:
    which = f"collective {one.number} of the call" if one.number else f"collective {one.sequence} since the start"
    # NCCL's barrier is an all-reduce of one number, and torch names it so.
    is_barrier = one.operation == "all_reduce_barrier"
    what = "barrier" if is_barrier else f"{one.operation} of {one.tensors}" if one.tensors else one.operation
    group = f" among ranks {', '.join(map(str, one.ranks))}" if 0 < len(one.ranks) < world_size else ""
    return f"{which}, {what}{group}"
