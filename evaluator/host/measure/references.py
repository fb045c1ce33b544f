"""Times the reference at one size, at its steady speed and in the same way as a submission."""

import itertools
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median

from evaluator.contract import BufferKind, CallTimeline
from evaluator.host.clock.call_clock import CallTime, Opening
from evaluator.host.measure import outputs, recorded_call
from evaluator.host.measure.launch_ahead import LaunchAhead
from evaluator.host.ranks.oracle_group import NOTHING_MAPPED, InputSpec, OpenedSize, Outputs, PreparedInputs
from evaluator.host.ranks.reference_group import ReferenceGroup, ReferenceTime
from evaluator.host.ranks.trusted_ranks import TrustedRanks
from evaluator.oracle.messages import Reader

_LEAST_CALLS = 4
_KEY_BYTES = 32


@dataclass(frozen=True, kw_only=True)
class SteadySpeed:
    """What the calls before the first phase show of the reference.

    Attributes:
        call_s: its time, in seconds.
        turn_s: how long one call occupies the ranks, with making its inputs, in seconds.
        waits_for_queue: whether it queues all its work without waiting for the device.
    """

    call_s: float
    turn_s: float
    waits_for_queue: bool


class ReferenceClock:
    """Calls of the reference, each on inputs that it has not met before, as a submission's calls are.

    Libraries look for a kernel when they meet a shape for the first time. A matrix product takes 104 us on an H200
    then, and 22 us when the shape has been met before (21 November 2026, torch 2.11.0+cu130). Where shapes follow from
    inputs, as in a mixture of experts, that search is part of the time of both sides.
    """

    def __init__(
        self, trusted: TrustedRanks, opened: OpenedSize, draws: Iterator[int], *, ranks: ReferenceGroup | None = None
    ) -> None:
        """Calls on the reference ranks of `trusted`, or on `ranks`, whichever have the problem open."""
        self._oracle, self._reference = trusted.oracle, ranks or trusted.reference
        self._opened = opened
        self._draws = draws
        self._launch_ahead = LaunchAhead()
        self._mapped = [NOTHING_MAPPED] * opened.ranks

    def open(self, *, calls: int, seconds: float) -> SteadySpeed:
        """Make the first calls, then up to `calls` more, no new one after `seconds` but for the first few."""
        while not self._launch_ahead.is_fixed:
            self.time()
        start = time.monotonic()
        taken: list[ReferenceTime] = []
        while len(taken) < min(calls, _LEAST_CALLS) or (len(taken) < calls and time.monotonic() - start < seconds):
            taken.append(self.time())
        turn_s = (time.monotonic() - start) / len(taken)
        return SteadySpeed(
            call_s=median(call.time.longest_ns for call in taken) * 1e-9,
            turn_s=turn_s,
            waits_for_queue=self._launch_ahead.waits_for_queue,
        )

    def reopen(self, known: SteadySpeed, *, calls: int) -> None:
        """Reuse what was found at this size before, after a few calls."""
        self._launch_ahead = LaunchAhead(waits_for_queue=known.waits_for_queue, is_fixed=True)
        for _ in range(calls):
            self.time()

    def time(self) -> ReferenceTime:
        """One call on new inputs."""
        opening = self._opening()
        with self._loaded(opening) as (inputs, _):
            size = max(item.size for item in inputs)
            taken = self._reference.call(opening=opening, inputs=self._late(inputs), input_bytes=size)
        self._launch_ahead.note(taken.time)
        return taken

    @contextmanager
    def outputs_of(self, spec: InputSpec) -> Iterator[Outputs]:
        """What the reference returns on the inputs of `spec`, until its next call."""
        opening = self._opening()
        with self._loaded(opening, spec) as (inputs, targets):
            size = max(item.size for item in inputs)
            self._reference.call(opening=opening, inputs=self._late(inputs), input_bytes=size)
            yield [outputs.read_header(target) for target in targets], targets

    def record(self) -> CallTimeline:
        """The timeline of one more call, as its ranks report it; only for ranks that are never timed.

        The profiler may slow what they run later.
        """
        files = [recorded_call.create() for _ in range(self._opened.ranks)]
        opening = self._opening()
        try:
            with recorded_call.window() as seen, self._loaded(opening) as (inputs, _):
                self._reference.record(files)
                size = max(item.size for item in inputs)
                self._reference.call(opening=opening, inputs=self._late(inputs), input_bytes=size)
                window = seen()
            return recorded_call.read_timeline(files, window=window)
        finally:
            outputs.close_all(files)

    def empty(self) -> CallTime:
        """One call in which nothing is computed, of as many bytes.

        It never waits for the device. A program that waits returns after its gate opened, and taking its outputs comes
        after that. This stays in its time: otherwise programs could pretend to wait.
        """
        opening = new_opening(LaunchAhead(waits_for_queue=True, is_fixed=True), ranks=self._opened.ranks)
        with self._loaded(opening) as (inputs, _):
            return self._reference.empty_call(opening=opening, inputs=self._late(inputs))

    def _opening(self) -> Opening:
        return new_opening(self._launch_ahead, ranks=self._opened.ranks)

    @contextmanager
    def _loaded(
        self, opening: Opening, spec: InputSpec | None = None
    ) -> Iterator[tuple[list[PreparedInputs], list[int]]]:
        """Prepare a call as for a sandbox rank; gives its inputs, and the files for outputs."""
        poison = outputs.new_poison()
        inputs = self._oracle.prepare(
            spec or InputSpec(index=next(self._draws)),
            groups=self._opened.groups,
            key=opening.key,
            reuse=False,
            poison=int.from_bytes(poison, "little"),
            reader=Reader.REFERENCE,
            mapped=self._mapped,
        )
        with ExitStack() as held:
            held.callback(outputs.close_all, [one for item in inputs for one in item.descriptors])
            targets = outputs.create_all(inputs, poison=b"" if self._is_on_device else poison)
            held.callback(outputs.close_all, targets)
            pairs = zip(inputs, targets, strict=True)
            self._reference.load(
                [(item.file, target, *item.areas) if self._is_on_device else (target,) for item, target in pairs]
            )
            self._mapped = [item.areas_number for item in inputs]
            yield inputs, targets

    def _late(self, inputs: Sequence[PreparedInputs]) -> list[int]:
        """The input files that CPU ranks get when the call begins."""
        return [] if self._is_on_device else [item.file for item in inputs]

    @property
    def _is_on_device(self) -> bool:
        return self._opened.buffers is BufferKind.DEVICE_MEMORY


def new_opening(head: LaunchAhead, *, ranks: int) -> Opening:
    """The opening of a call of trusted code: gates open together, with a key of its own."""
    return Opening(
        key=secrets.token_bytes(_KEY_BYTES),
        head_s=head.seconds,
        waits_for_queue=head.waits_for_queue,
        delays_us=(0,) * ranks,
    )


class RecordedReferences:
    """The timelines of references that a slot has recorded since its start."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], CallTimeline] = {}

    def take(self, trusted: TrustedRanks, *, problem: str, size: str, dtype: str) -> CallTimeline:
        """The timeline of a problem's reference, recorded now where it is not known.

        Raises:
            EvaluatorError: the ranks did not finish the recorded call.
        """
        key = (problem, size, dtype)
        if key not in self._known:
            opened = trusted.open_size(problem=problem, size=size, dtype=dtype, key=secrets.token_bytes(_KEY_BYTES))
            trusted.recorder.open(problem)
            clock = ReferenceClock(trusted, opened, itertools.count(), ranks=trusted.recorder)
            clock.open(calls=2, seconds=0.0)
            self._known[key] = clock.record()
            # The reference is timed beside them, and needs the memory.
            trusted.recorder.close()
        return self._known[key]
