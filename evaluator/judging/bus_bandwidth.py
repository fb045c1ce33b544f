"""Bus bandwidth of collectives by the convention of nccl-tests.

Source: `doc/PERFORMANCE.md` of NVIDIA/nccl-tests, and `getBw` of its programs for gather, scatter and all-to-all. Bytes
over time is the algorithm bandwidth. Times a factor of the collective and the world size it is the bus bandwidth, which
can be held against the speed of a link whatever the number of ranks.
"""

from problems.spec.schema import Problem
from problems.spec.taxonomy import Block, Communication

_ALL_BUT_OWN = frozenset(
    {
        Communication.ALL_GATHER,
        Communication.REDUCE_SCATTER,
        Communication.ALL_TO_ALL,
        Communication.ALL_TO_ALL_V,
        Communication.GATHER,
        Communication.SCATTER,
    }
)


def factor(collective: Communication, world_size: int) -> float:
    """Bus bandwidth over algorithm bandwidth on `world_size` ranks.

    That is 2 (n - 1) / n for an all-reduce, and 1 where a root sends or receives one message: broadcast, reduce, send.
    It is (n - 1) / n where the message counts all ranks' parts, of which the own one does not travel.

    Raises:
        ValueError: there are fewer than two ranks.
    """
    if world_size < 2:
        raise ValueError(f"a bus needs at least 2 ranks, got {world_size}")
    others = (world_size - 1) / world_size
    if collective is Communication.ALL_REDUCE:
        return 2 * others
    return others if collective in _ALL_BUT_OWN else 1.0


def bus_bytes(problem: Problem, message_bytes: int, world_size: int) -> float | None:
    """The bytes that over a time are the bus bandwidth of a call with `message_bytes`; None where it is no collective.

    `message_bytes` counts as nccl-tests count: all parts of all ranks where a rank sends or receives one per rank.
    """
    if problem.block is not Block.PRIMITIVE:
        return None
    return factor(problem.communication[0], world_size) * message_bytes
