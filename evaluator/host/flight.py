"""Reading what a rank noted of its collectives: untrusted text, used to tell the author where ranks wait."""

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
    """The collectives that `text` tells of; none where it is not what our code writes."""
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
    """Whether ranks of one group, each with what it has not finished there, wait for different things.

    Sends and receives between two ranks follow one another. They say so only where all ranks of the group wait in one,
    and no two ranks are at the two ends of the same one.
    """
    oldest = [ones[0] for ones in waiting]
    if not all(_PAIRWISE.fullmatch(one.operation) for one in oldest):
        return len({(one.operation, one.sequence) for one in oldest}) > 1
    ends = [end for ones in waiting for end in _open_ends(ones)]
    return len(waiting) == len(oldest[0].ranks) and len(set(ends)) == len(ends)


def _open_ends(ones: Sequence[Collective]) -> set[tuple[str, str]]:
    """From whom to whom a rank's oldest send or receive with each peer goes."""
    found: dict[str, tuple[str, str]] = {}
    for pair in filter(None, (_PAIRWISE.fullmatch(one.operation) for one in ones)):
        kind, own, peer = pair.groups()
        found.setdefault(peer, (own, peer) if kind == "send" else (peer, own))
    return set(found.values())


def words(collectives: Sequence[Collective], *, world_size: int) -> str:
    """Where a rank stands among its collectives: the one it waits in, else the last that it finished."""
    waiting = pending(collectives)
    if waiting is not None:
        return _one(waiting, world_size=world_size)
    if not collectives:
        return ""
    last = collectives[-1]
    return "no collective in the call" if last.number == 0 else f"its last: {_one(last, world_size=world_size)}"


def _one(one: Collective, *, world_size: int) -> str:
    which = f"collective {one.number} of the call" if one.number else f"collective {one.sequence} since the start"
    tensors = f" of {one.tensors}" if one.tensors else ""
    group = f" among ranks {', '.join(map(str, one.ranks))}" if 0 < len(one.ranks) < world_size else ""
    return f"{which}, {one.operation}{tensors}{group}"
