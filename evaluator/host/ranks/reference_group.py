"""The host's side of the reference ranks: calls on inputs that the oracle has prepared."""

import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from evaluator.errors import EvaluatorError
from evaluator.host.clock.call_clock import CallTime, ClockPage, GateClock, Opening, UnseenEnd
from evaluator.host.ranks.trusted_client import Replies, TrustedRankClient
from evaluator.oracle import messages


@dataclass(frozen=True, kw_only=True)
class ReferenceTime:
    """One call of the reference: its time on the host's clock, the self-reported time (ns), and the bytes of a rank."""

    time: CallTime
    claims_ns: tuple[int, ...]
    input_bytes: int
    output_bytes: int


class ReferenceGroup:
    """Trusted ranks that run the references of problems, one after the other."""

    def __init__(self, client: TrustedRankClient, *, clock: GateClock | None, page: ClockPage, limit_s: float) -> None:
        self._client = client
        self._clock = clock
        self._page = page
        self._limit_s = limit_s
        self._numbers = itertools.count(1)

    def open(self, problem: str) -> None:
        """Open the reference of `problem`, and free the memory of the one before; raises EvaluatorError."""
        self._client.ask({"command": "open", "problem": problem})

    def close(self) -> None:
        """Free the memory of the problem that is open; raises EvaluatorError."""
        self._client.ask({"command": "close"})

    def load(self, buffers: Sequence[Sequence[int]]) -> None:
        """Hand every rank the files (and new device memory) of a call; raises EvaluatorError."""
        self._client.ask_each([{"command": "load"}] * self._client.ranks, buffers)

    def call(self, *, opening: Opening, inputs: Sequence[int], input_bytes: int) -> ReferenceTime:
        """One call of the reference on what was loaded; CPU ranks get their `inputs` now, one file per rank.

        Raises:
            EvaluatorError: a rank is silent, or its device has not posted the end of the call.
        """
        time_taken, replies = self._timed({"command": "go"}, opening, self._per_rank(inputs))
        return ReferenceTime(
            time=time_taken,
            claims_ns=tuple(body["claimed_ns"] for body, _ in replies),
            input_bytes=input_bytes,
            output_bytes=max(body["bytes"] for body, _ in replies),
        )

    def record(self, files: Sequence[int]) -> None:
        """Have every rank record into its file what runs until the end of the next call; raises EvaluatorError."""
        self._client.ask_each([{"command": "record"}] * self._client.ranks, [(file,) for file in files])

    def empty_call(self, *, opening: Opening, inputs: Sequence[int]) -> CallTime:
        """One empty call: the bytes of the last call, without computing; raises EvaluatorError, as `call`."""
        return self._timed({"command": "empty"}, opening, self._per_rank(inputs))[0]

    def bare(self, *, opening: Opening) -> CallTime:
        """One bare call: no bytes, no work; raises EvaluatorError."""
        return self._timed({"command": "bare"}, opening, [()] * self._client.ranks)[0]

    def loop(self, times: int, groups: int = 1) -> int:
        """Nanoseconds of `times` calls back to back on `groups` of the last inputs; raises EvaluatorError."""
        begun = time.monotonic_ns()
        self._client.ask({"command": "loop", "times": times, "groups": groups})
        return max(self._client.answered_at_ns) - begun

    def _per_rank(self, inputs: Sequence[int]) -> list[Sequence[int]]:
        """The descriptors for each rank: its file, or nothing where inputs are loaded already."""
        return [inputs[rank : rank + 1] for rank in range(self._client.ranks)]

    def _timed(
        self, command: messages.Body, opening: Opening, files: Sequence[Sequence[int]]
    ) -> tuple[CallTime, Replies]:
        # The page keeps the numbers of ended calls, so none may be used again.
        commands = [command | {"number": next(self._numbers)}] * self._client.ranks
        timing: AbstractContextManager[Callable[[], CallTime] | None] = nullcontext()
        if self._clock is not None:
            timing = self._clock.timing(self._page, opening, number=commands[0]["number"], limit_s=self._limit_s)
        try:
            with timing as finish:
                begun = time.monotonic_ns()
                replies = self._client.ask_each(commands, files)
                if finish is not None:
                    return finish(), replies
        except UnseenEnd as unseen:
            raise EvaluatorError(f"the reference's ranks: {unseen}") from unseen
        return CallTime(done_ns=tuple(at - begun for at in self._client.answered_at_ns)), replies
