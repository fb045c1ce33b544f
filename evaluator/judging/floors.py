"""The communication-aware roofline: how fast a call could be at best on a given GPU, and what bounds it."""

from dataclasses import dataclass
from enum import StrEnum

from evaluator.hardware.machines import Peaks
from evaluator.hardware.profiles import Profile
from problems.spec.schema import Cost, Problem

_ELEMENT_BYTES = {"float64": 8, "float32": 4, "float8_e4m3fn": 1, "float8_e5m2": 1}


class Bound(StrEnum):
    """The ceiling that a floor rests on."""

    ARITHMETIC = "arithmetic"
    MEMORY = "memory"
    WIRE = "wire"
    LATENCY = "latency"


@dataclass(frozen=True)
class Floor:
    """A lower bound on the time of one call.

    Attributes:
        us: the largest term, in microseconds: everything overlaps perfectly.
        bound: which ceiling that is.
        terms_us: each ceiling's own time.
        sum_us: the time without any overlap.
    """

    us: float
    bound: Bound
    terms_us: dict[Bound, float]
    sum_us: float


def arithmetic_s(cost: Cost, peaks: Peaks, *, dtype: str) -> float:
    """Seconds that the operations of `cost` take at the peaks, one kind of arithmetic after the other.

    Args:
        cost: operations per rank; `matmul` runs on the tensor cores in the run's `dtype`.
        peaks: FLOP/s by kind.
        dtype: torch name of the run's dtype. float32 products are counted at a quarter of the tensor cores' bf16 rate.
            TF32 is refused as a downgrade, but a kernel may emulate float32 products on tensor cores.

    Raises:
        KeyError: the cost model names a kind of arithmetic that has no peak.
    """
    matmul = {"float8_e4m3fn": peaks.fp8_flops, "float32": peaks.bf16_flops / 4, "float64": peaks.fp64_flops}
    rates = {
        "matmul": matmul.get(dtype, peaks.bf16_flops),
        "fp8": peaks.fp8_flops,
        "fp32": peaks.fp32_flops,
        "fp64": peaks.fp64_flops,
    }
    return sum(count / rates[kind] for kind, count in cost.flops.items())


def memory_s(cost: Cost, peaks: Peaks) -> float:
    """Seconds that the bytes of `cost` take which have to cross to or from device memory.

    Inputs have just been written when a call begins, so the L2 cache may contain as much of them as fits. As much of
    what the call writes may stay there. Neither need cross while the call is timed.
    """
    return max(0.0, cost.memory_bytes - 2 * peaks.l2_bytes) / peaks.memory_bytes_s


def floor(cost: Cost, peaks: Peaks, *, dtype: str = "bfloat16", latency_us: float | None = None) -> Floor:
    """The floor of one call on one GPU of the profile.

    Args:
        cost: the least work per rank.
        peaks: datasheet (or measured) ceilings per GPU.
        dtype: torch name of the run's dtype.
        latency_us: measured time of an empty collective; where it exceeds the floor, the call is latency-bound
            (the floor itself is unchanged: a kernel without a collective may undercut the latency).
    """
    terms = {
        Bound.ARITHMETIC: arithmetic_s(cost, peaks, dtype=dtype) * 1e6,
        Bound.MEMORY: memory_s(cost, peaks) * 1e6,
        Bound.WIRE: cost.wire_bytes / peaks.wire_bytes_s * 1e6,
    }
    bound = max(terms, key=lambda term: terms[term])
    us = terms[bound]
    if latency_us is not None and latency_us > us:
        bound = Bound.LATENCY
    return Floor(us=us, bound=bound, terms_us=terms, sum_us=sum(terms.values()))


def cost_of(problem: Problem, dims: dict[str, int], *, world_size: int, dtype: str) -> Cost:
    """The least work of one call with inputs in `dtype`."""
    return problem.cost(dims, world_size, _ELEMENT_BYTES.get(dtype, 2))


def floor_of(problem: Problem, dims: dict[str, int], profile: Profile, *, dtype: str) -> Floor | None:
    """The floor of one call of a problem; None on a practice board."""
    if profile.peaks is None:
        return None
    return floor(cost_of(problem, dims, world_size=profile.world_size, dtype=dtype), profile.peaks, dtype=dtype)
