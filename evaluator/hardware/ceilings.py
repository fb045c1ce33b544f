"""Measured ceilings of profiles: what the hardware reached in simple programs, beside the datasheet's peaks.

One JSON file per profile lies beside this module, written by `python -m evaluator probe --measure`.
"""

from pathlib import Path

from evaluator.contract import Message

FOLDER = Path(__file__).parent / "ceilings"


class PairRate(Message, frozen=True, kw_only=True):
    """One-way copy between the memories of two ranks, in bytes a second."""

    source: int
    target: int
    bytes_s: float


class CollectiveRate(Message, frozen=True, kw_only=True):
    """One collective at one message size.

    `message_bytes` is the size of the larger buffer of a rank. `bus_bytes_s` is the bus bandwidth as nccl-tests define
    it (doc/PERFORMANCE.md there): 2 (n - 1) / n times message over time for all-reduce, (n - 1) / n for all-gather and
    all-to-all. `median_us` is the median over calls of the slowest rank.
    """

    name: str
    message_bytes: int
    median_us: float
    bus_bytes_s: float


class Ceilings(Message, frozen=True, kw_only=True):
    """What one profile's hardware reached.

    Attributes:
        arithmetic_flops: FLOP/s of the fastest matrix product per dtype, slowest rank.
        memory_bytes_s: bytes read and written per second by a device-to-device copy, slowest rank.
        pairs: one-way copies between every two ranks, empty where ranks have no memory of their own.
        collectives: bandwidth over message sizes.
        empty_collective_us: median time of an all-reduce of one element.
        barrier_us: median time of a symmetric-memory barrier; None where there is none.
        notes: what could not be measured, and why.
    """

    profile: str
    measured_at: str
    environment: dict[str, str]
    arithmetic_flops: dict[str, float]
    memory_bytes_s: float
    pairs: tuple[PairRate, ...]
    collectives: tuple[CollectiveRate, ...]
    empty_collective_us: float
    barrier_us: float | None = None
    notes: tuple[str, ...] = ()


def stored(profile: str) -> Ceilings | None:
    """The ceilings measured for the profile of this name, None where there are none.

    Raises:
        ContractError: the file is not what this module writes.
    """
    path = FOLDER / f"{profile}.json"
    return Ceilings.from_json(path.read_bytes()) if path.is_file() else None
