"""The messages of one call: its inputs go to the ranks, the gates open, the ranks answer."""

import secrets
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from evaluator.contract import BufferKind, CallKind
from evaluator.host.clock.call_clock import Opening, UnseenEnd
from evaluator.host.measure.call_checks import Exchange
from evaluator.host.measure.call_setup import CallSetup
from evaluator.host.measure.evidence import Ended
from evaluator.host.measure.head_start import MetLayouts
from evaluator.host.ranks.oracle_group import NOTHING_MAPPED, PreparedInputs

KEY_BYTES = 32
"""The length of the key that seals a call's inputs."""


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How one call is made; the submission does not know it.

    Attributes:
        kind: what is special about it.
        key: seals its inputs.
        reuse: whether the inputs lie at the addresses of the call before.
        around: entered while the ranks run the submission.
        recordings: files, one per rank, in which the ranks record what runs.
    """

    kind: CallKind
    key: bytes
    reuse: bool
    around: AbstractContextManager[None]
    recordings: Sequence[int]


class Exchanges:
    """Makes the exchanges of all calls at one size.

    Attributes:
        mapped: by rank, the number of the device memory that it has mapped.
        has_called: whether there was a call; the first one may take longer.
    """

    def __init__(self, setup: CallSetup) -> None:
        of_group = setup.group_setup
        settings = of_group.policy.settings
        self._commands = of_group.group.commands
        self._oracle = of_group.trusted.oracle
        self._numbers = of_group.numbers
        self._first_call_s = of_group.first_call_s
        self._policy = of_group.policy
        self._opened = setup.opened
        self._head_start = setup.head_start
        self._layouts = MetLayouts()
        self._checks = setup.checks
        self._limit_s = max(settings.call_limit_s, settings.call_limit_factor * setup.reference_s)
        self.mapped = [NOTHING_MAPPED] * len(setup.opened.output_bytes)
        self.has_called = False

    def make(self, inputs: list[PreparedInputs], targets: list[int], manner: Manner) -> Exchange:
        """One call.

        Args:
            inputs: by rank.
            targets: by rank, the file for its outputs.
            manner: how the call is made.

        Raises:
            GroupTrouble: not every rank answered.
            Ended: a rank answered, but its device has not posted the end of the call.
        """
        number = next(self._numbers)
        limit_s = self._policy.within(self._limit_s + (0.0 if self.has_called else self._first_call_s))
        delays_us = self._delays_us(len(inputs)) if manner.kind is CallKind.SKEWED else (0,) * len(inputs)
        self._load(number, inputs, targets, limit_s=limit_s)
        if manner.recordings:
            self._commands.record(number, manner.recordings, seconds=limit_s, cancelled=self._policy.cancelled)
        is_early = self._layouts.is_new(tuple(item.layout for item in inputs))
        opening = self._opening(manner, delays_us, is_early=is_early)
        try:
            with self._oracle.watching(limit_s=limit_s) if self._is_on_device else nullcontext(), manner.around:
                reports, time_taken = self._commands.go(
                    number,
                    opening=opening,
                    inputs=() if self._is_on_device else [item.file for item in inputs],
                    reuse=manner.reuse,
                    count=manner.kind is not CallKind.PLAIN and self._policy.counts_collectives,
                    seconds=limit_s,
                    cancelled=self._policy.cancelled,
                )
        except UnseenEnd as unseen:
            raise Ended([self._checks.unseen(unseen.ranks[0], call=number)]) from unseen
        # Of the calls before which nothing could be queued only the first counts: libraries are loaded then.
        if not (is_early and self.has_called):
            self._head_start.note(time_taken)
        self.has_called = True
        return Exchange(number=number, reports=reports, time=time_taken, is_reused=manner.reuse, delays_us=delays_us)

    def loop(self, times: int) -> int:
        """Nanoseconds of `times` calls back to back on the last inputs; raises GroupTrouble."""
        limit_s = self._policy.within(self._limit_s * max(1, times // 10))
        return self._commands.loop(next(self._numbers), times=times, seconds=limit_s, cancelled=self._policy.cancelled)

    def store_again(self, number: int, targets: list[int]) -> None:
        """Let the ranks store the outputs of call `number` once more, into `targets`; raises GroupTrouble."""
        limit_s = self._policy.within(self._limit_s)
        self._commands.store(number, targets, seconds=limit_s, cancelled=self._policy.cancelled)

    def _load(self, number: int, inputs: list[PreparedInputs], targets: list[int], *, limit_s: float) -> None:
        files = [(item.file, target, *item.areas) for item, target in zip(inputs, targets, strict=True)]
        self._commands.load(
            number,
            files if self._is_on_device else [(target,) for target in targets],
            seconds=limit_s,
            cancelled=self._policy.cancelled,
        )
        self.mapped = [item.areas_number for item in inputs]

    def _opening(self, manner: Manner, delays_us: tuple[int, ...], *, is_early: bool) -> Opening:
        return Opening(
            key=manner.key,
            head_s=0.0 if is_early else self._head_start.seconds,
            waits_for_queue=self._head_start.waits_for_queue and not is_early,
            delays_us=delays_us,
            is_early=is_early,
        )

    def _delays_us(self, world_size: int) -> tuple[int, ...]:
        """A secret delay for some ranks, at least one and not all."""
        least, most = self._policy.timing_policy.skew_us
        late = set(secrets.SystemRandom().sample(range(world_size), 1 + secrets.randbelow(max(1, world_size - 1))))
        return tuple(least + secrets.randbelow(most - least) if rank in late else 0 for rank in range(world_size))

    @property
    def _is_on_device(self) -> bool:
        return self._opened.buffers is BufferKind.DEVICE_MEMORY
