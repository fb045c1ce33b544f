"""Was the reference slower beside the submission than before any rank could read it? An alarm, never a verdict.

Phases of reference and submission alternate, so what slows both cancels in the score. What slows the reference alone
raises the score. A busy host causes the alarm too. So the alarm names what the driver and the kernel showed of the slot
in the reference's phases, and a person looks at it.

A reference that waits for its device inside a call is as slow as the host's processors then are. Its times differ by
much more without any submission, so its threshold is higher.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from statistics import median, quantiles

from evaluator.contract import MOMENT_ALONE, ClockKind, GpuReading, SizeRecord, TimingRules
from evaluator.judging import throttling

SLOWER, SLOWER_WAITING = 1.15, 1.31
"""The ratio of medians, later phases to the calls before, that causes an alarm where the middle halves are apart.

The second is for a reference that waits for its device: two standard deviations of such a ratio."""

_LEAST_CALLS, _LEAST_NS = 4, 20_000

_BUSY_CORES, _POLLING_CORES = 0.02, 1.1
"""Processor time that an alarm names: of all ranks where they sleep between calls, of each where ranks busy-poll."""

_MORE_TRAFFIC, _TRAFFIC_BYTES = 1.25, 1_000_000
_LOWER_CLOCK = 0.95
_MORE_PERCENT = 10
_MORE_MEMORY_BYTES = 1_000_000_000
"""What an alarm names: larger differences between the reference's phases and its calls alone. None is a limit."""


def alarms(sizes: Sequence[SizeRecord], rules: TimingRules) -> tuple[str, ...]:
    """One sentence for every size and worker group beside which the reference was slower than before."""
    return tuple(sentence for size in sizes if (sentence := _alarm(size, rules)) is not None)


def threshold(size: SizeRecord, rules: TimingRules) -> float:
    """The ratio of medians from which the reference at this size counts as slower."""
    waits = rules.clock is ClockKind.GATE and not size.reference_queues
    return SLOWER_WAITING if waits else SLOWER


def _alarm(size: SizeRecord, rules: TimingRules) -> str | None:
    later = [call.time_ns for block in size.reference for call in block]
    alone = list(size.reference_alone_ns)
    if min(len(later), len(alone)) < _LEAST_CALLS:
        return None
    before, after = median(alone), median(later)
    are_apart = quantiles(later, n=4)[0] > quantiles(alone, n=4)[2]
    if not are_apart or after < threshold(size, rules) * before or after - before < _LEAST_NS:
        return None
    seen = "; ".join(_seen(size, rules)) or "nothing else that differs, so the host may have been busy"
    return (
        f"{size.size}, worker group {size.group_number}: the reference took {after / 1000:.0f} us beside the "
        f"submission, {after / before:.2f} times the {before / 1000:.0f} us before any rank could read the submission. "
        f"Seen in its phases: {seen}"
    )


def _usual_cores(size: SizeRecord, rules: TimingRules) -> float:
    """How many processors an honest submission may use while the reference runs."""
    ranks = len(size.calls[0].done_ns) if size.calls else 0
    return _POLLING_CORES * ranks if rules.clock is ClockKind.GATE else _BUSY_CORES


def _seen(size: SizeRecord, rules: TimingRules) -> Iterator[str]:
    """What differed in the slot between the reference's phases and its calls alone, in words."""
    if size.watched_ns and size.busy_ns > _usual_cores(size, rules) * size.watched_ns:
        yield f"the submission's processes used {size.busy_ns / size.watched_ns:.2f} processors"
    for gpu in sorted({reading.gpu for reading in size.gpus}):
        before = [each for each in size.gpus if each.gpu == gpu and each.moment == MOMENT_ALONE]
        later = [each for each in size.gpus if each.gpu == gpu and each.is_of_phase]
        if before and later:
            yield from differences(before[-1], later)


def differences(alone: GpuReading, later: Sequence[GpuReading]) -> Iterator[str]:
    """What differed on a GPU between the reference's calls alone and its later phases, a sentence each."""
    gpu = f"GPU {alone.gpu}"
    if slowed := sorted({reason for each in later for reason in throttling.reasons(each)}):
        yield f"{gpu} was slowed ({', '.join(slowed)})"
    for name, is_more, sentence in _COMPARED:
        was, now = getattr(alone, name), _median(getattr(each, name) for each in later)
        if was is not None and now is not None and is_more(was, now):
            yield sentence(gpu, was, now)


def _is_more_traffic(was: float, now: float) -> bool:
    return now > _MORE_TRAFFIC * was + _TRAFFIC_BYTES


def _traffic(gpu: str, was: float, now: float, *, verb: str, over: str) -> str:
    return f"{gpu} {verb} {now / 1e6:,.1f} MB a call over {over}, {was / 1e6:,.1f} MB alone"


_COMPARED: tuple[tuple[str, Callable[[float, float], bool], Callable[[str, float, float], str]], ...] = (
    *(
        (f"{prefix}{verb}_bytes", _is_more_traffic, partial(_traffic, verb=verb, over=over))
        for prefix, over in (("", "its links"), ("pcie_", "PCIe"))
        for verb in ("sent", "received")
    ),
    (
        "dram_percent",
        lambda was, now: now > was + _MORE_PERCENT,
        lambda gpu, was, now: f"{gpu} used {now:.0f} % of its memory's bandwidth, {was:.0f} % alone",
    ),
    (
        "sm_mhz",
        lambda was, now: now < _LOWER_CLOCK * was,
        lambda gpu, was, now: f"{gpu}'s SM clock was {now:.0f} MHz, {was:.0f} MHz alone",
    ),
    (
        "memory_mhz",
        lambda was, now: now < _LOWER_CLOCK * was,
        lambda gpu, was, now: f"{gpu}'s memory clock was {now:.0f} MHz, {was:.0f} MHz alone",
    ),
    (
        "memory_percent",
        lambda was, now: now > was + _MORE_PERCENT,
        lambda gpu, was, now: f"{gpu}'s memory was in use {now:.0f} % of the time, {was:.0f} % alone",
    ),
    (
        "processes",
        lambda was, now: now > was,
        lambda gpu, was, now: f"{now:.0f} processes used {gpu}, {was:.0f} alone",
    ),
    (
        "used_bytes",
        lambda was, now: now > was + _MORE_MEMORY_BYTES,
        lambda gpu, was, now: f"{gpu} held {(now - was) / 1e9:.1f} GB more than before",
    ),
)
"""Fields of a reading: when the later value counts as different, and how to say it."""


def _median(values: Iterable[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
