"""The time of a call: from the gatekeeper on GPUs, from messages on CPU ranks."""

import contextlib
import json
import mmap
import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from evaluator.arena import protocol
from evaluator.errors import EvaluatorError
from evaluator.host.clock import gatekeeper
from evaluator.host.clock.gatekeeper import GateCommand
from evaluator.host.process import memory_files
from evaluator.host.process.limited import end_session
from evaluator.host.process.spawner import Spawner
from evaluator.oracle import ends as ends_page
from evaluator.oracle.ends import Ends

_ROOT = Path(__file__).parents[3]
_PROGRAM = Path(gatekeeper.__file__)
_GRACE_S, _ANSWER_S, _END_S = 0.2, 5.0, 10.0
"""Ranks answer after their devices posted the end. If the gatekeeper sees no end for so long, there is none."""


@dataclass(frozen=True, kw_only=True)
class CallTime:
    """One call on the host's clock, in nanoseconds; one entry per rank in the tuples.

    `done_ns` runs from the opening of the gates (GPUs) or from GO (CPU ranks). `head_ns` is how long before the opening
    ranks could queue work, and `has_queued` whether all had queued everything by then.
    """

    done_ns: tuple[int, ...]
    head_ns: int = 0
    has_queued: bool = False
    marks: tuple[str, ...] = ()

    @property
    def longest_ns(self) -> int:
        """The slowest rank's time."""
        return max(self.done_ns)


@dataclass(frozen=True, kw_only=True)
class Opening:
    """How the gates of a call open.

    Attributes:
        key: seals the inputs.
        head_s: how long ranks may queue work before that, in seconds.
        waits_for_queue: whether the gates open as soon as all ranks have queued everything.
        delays_us: for each rank how much later than the first its gate opens.
        is_early: whether ranks run the submission only when their gates are open.
    """

    key: bytes
    head_s: float
    waits_for_queue: bool
    delays_us: tuple[int, ...]
    is_early: bool = False


class ClockPage:
    """The page through which the calls of one group of ranks are timed; ranks get its descriptor."""

    def __init__(self) -> None:
        self.descriptor = memory_files.create("clock", protocol.CLOCK_PAGE_BYTES)

    def close(self) -> None:
        """Close the host's descriptor."""
        os.close(self.descriptor)


class UnseenEnd(Exception):
    """Ranks answered, but their devices did not post the end of the call."""

    def __init__(self, ranks: Sequence[int]) -> None:
        super().__init__(f"the devices of ranks {', '.join(map(str, ranks))} did not post the end of the call")
        self.ranks = tuple(ranks)


class GateClock:
    """The judge's side of a slot's gatekeeper; times one call at a time.

    Attributes:
        upcoming: the ticket of the next call that is timed.
        ends: descriptor of the page on which ends of calls are posted for oracle ranks, by ticket.
    """

    def __init__(self, *, spawner: Spawner, cores: Sequence[int]) -> None:
        """Start it; raises EvaluatorError."""
        self.upcoming = 1
        self.ends = ends_page.new_page()
        self._spawner = spawner
        self._cores = list(cores)
        self._log = os.memfd_create("gatekeeper", os.MFD_CLOEXEC)
        self._is_timing = False
        self._is_closed = False
        self._start()

    def _start(self) -> None:
        """Start the process by its file: as a module it would import the whole judge."""
        self._channel, child = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        options = {"channel": child.fileno(), "ends": self.ends, "cores": self._cores}
        try:
            self._process = self._spawner.start(
                [sys.executable, str(_PROGRAM), json.dumps(options)],
                descriptors=[child.fileno(), self.ends],
                environment={"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": str(_ROOT)},
                error_output=self._log,
            )
        except OSError as error:
            raise EvaluatorError(f"the gatekeeper could not be started: {error}") from error
        finally:
            child.close()

    @property
    def processes(self) -> list[int]:
        """The gatekeeper's process."""
        return [self._process.pid]

    @contextlib.contextmanager
    def timing(
        self, page: ClockPage, opening: Opening, *, number: int, limit_s: float
    ) -> Iterator[Callable[[], CallTime]]:
        """Have call `number` timed, which ranks begin inside; gives what says its time, once all have answered.

        Raises:
            EvaluatorError: the gatekeeper has gone.
        """
        self.begin(page, opening, number=number, limit_s=limit_s)
        try:
            yield self.finish
        finally:
            self.abandon()

    def begin(self, page: ClockPage, opening: Opening, *, number: int, limit_s: float) -> None:
        """Have call `number` timed, which the ranks are about to begin; raises EvaluatorError."""
        command = GateCommand(
            number=number,
            ticket=self.upcoming,
            key=opening.key,
            delays_ns=tuple(1000 * delay for delay in opening.delays_us),
            head_ns=int(opening.head_s * 1e9),
            waits_for_queue=opening.waits_for_queue,
            limit_ns=int(limit_s * 1e9),
        )
        self.upcoming += 1
        if self._process.poll() is not None:
            self._channel.close()
            self._start()
        self._is_timing = True
        try:
            socket.send_fds(self._channel, [command.to_json()], [page.descriptor])
        except OSError as error:
            raise self._gone(str(error)) from error

    def finish(self) -> CallTime:
        """The time of the call, whose ranks have all answered.

        Raises:
            UnseenEnd: a rank's device has not posted the end.
            EvaluatorError: the gatekeeper has gone.
        """
        answer = self._answer()
        unseen = [rank for rank, at in enumerate(answer["done_ns"]) if at < 0]
        if unseen:
            raise UnseenEnd(unseen)
        return CallTime(
            done_ns=tuple(answer["done_ns"]),
            head_ns=answer["head_ns"],
            has_queued=answer["has_queued"],
            marks=tuple(answer["marks"]),
        )

    def abandon(self) -> None:
        """Stop timing the present call, if there is one: its ranks will not answer. Raises EvaluatorError."""
        if self._is_timing:
            self._stop()
            self._answer()

    def give_up(self, ticket: int) -> None:
        """Post to oracle ranks that they need not wait for the end of the call with this ticket."""
        with mmap.mmap(self.ends, ends_page.BYTES) as page:
            for rank in range(ends_page.MOST_RANKS):
                Ends(page).give_up(rank, ticket)

    def _answer(self) -> dict[str, Any]:
        self._channel.settimeout(_GRACE_S)
        try:
            raw = self._channel.recv(8192)
        except TimeoutError:
            self._stop()
            self._channel.settimeout(_ANSWER_S)
            raw = self._heard()
        except OSError as error:
            raise self._gone(str(error)) from error
        self._is_timing = False
        if not raw:
            raise self._gone("its end of the socket is closed")
        answer: dict[str, Any] = json.loads(raw)
        return answer

    def _heard(self) -> bytes:
        try:
            return self._channel.recv(8192)
        except OSError as error:
            raise self._gone(f"it does not answer: {error}") from error

    def _stop(self) -> None:
        try:
            self._channel.send(b"stop")
        except OSError as error:
            raise self._gone(str(error)) from error

    def _gone(self, how: str) -> EvaluatorError:
        """The error to raise where the gatekeeper has gone; the next call starts a new one."""
        end_session(self._process, "the gatekeeper", seconds=_END_S)
        self._is_timing = False
        said = os.pread(self._log, 4096, 0).decode("utf-8", "replace")
        return EvaluatorError(f"the gatekeeper has gone: {how}; {said}")

    def close(self) -> None:
        """End it; closing twice is closing once."""
        if self._is_closed:
            return
        self._is_closed = True
        self._channel.close()
        end_session(self._process, "the gatekeeper", seconds=_END_S)
        os.close(self._log)
        os.close(self.ends)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
