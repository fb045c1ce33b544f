"""How much GPU memory judge and submission hold, by the driver and by the reports of trusted ranks."""

from collections.abc import Sequence

from evaluator.contract import SizeMemory
from evaluator.host.machine import nvml
from evaluator.host.ranks.trusted_ranks import HeldMemory, TrustedRanks

SUBMISSIONS_SHARE = 0.5
"""A submission that holds more than this share of a GPU's memory is responsible for the judge's lack of memory."""


class GpuMemory:
    """Reads the GPUs of a slot before its worker group has a submission; memory added later is the submission's.

    Everything else is the judge's: contexts and communicators of all ranks, inputs, outputs, expected values.
    """

    def __init__(self, gpus: Sequence[int], trusted: TrustedRanks) -> None:
        """Read the GPUs for the first time; raises EvaluatorError where a trusted rank is silent."""
        self._gpus = gpus
        self._trusted = trusted
        self._before = nvml.read(gpus)
        self._held_before = trusted.memory() if self._before else ()

    def look(self) -> SizeMemory | None:
        """The GPU on which the submission holds most now; None where unknown. Raises EvaluatorError."""
        states = nvml.read(self._gpus) if self._before else ()
        if len(states) != len(self._before) or not states:
            return None
        now = self._trusted.memory()
        held_before, held = (per_gpu(each, gpus=len(states)) for each in (self._held_before, now))
        rows = zip(self._before, held_before, states, held, strict=True)
        return max((_of_gpu(*row) for row in rows), key=lambda memory: memory.submission_bytes)


def per_gpu(held: Sequence[HeldMemory], *, gpus: int) -> tuple[HeldMemory, ...]:
    """What ranks hold, summed over the ranks of every GPU: rank r is on GPU r modulo their number."""
    return tuple(
        HeldMemory(
            bytes=sum(each.bytes for each in held[gpu::gpus]),
            peak_bytes=sum(each.peak_bytes for each in held[gpu::gpus]),
        )
        for gpu in range(gpus)
    )


def _of_gpu(before: nvml.GpuState, held_before: HeldMemory, state: nvml.GpuState, held: HeldMemory) -> SizeMemory:
    overhead = before.used_bytes - held_before.bytes
    return SizeMemory(
        total_bytes=state.total_bytes,
        judge_bytes=overhead + held.peak_bytes,
        submission_bytes=max(0, state.used_bytes - overhead - held.bytes),
    )


def most(first: SizeMemory | None, second: SizeMemory | None) -> SizeMemory | None:
    """The larger figures of both readings."""
    if first is None or second is None:
        return first or second
    return SizeMemory(
        total_bytes=first.total_bytes,
        judge_bytes=max(first.judge_bytes, second.judge_bytes),
        submission_bytes=max(first.submission_bytes, second.submission_bytes),
    )


def describe(memory: SizeMemory) -> str:
    """The figures for an author."""
    gb = 1e9
    return (
        f"the submission used {memory.submission_bytes / gb:.1f} GB of a GPU's {memory.total_bytes / gb:.1f} GB, "
        f"the judge {memory.judge_bytes / gb:.1f} GB at most"
    )
