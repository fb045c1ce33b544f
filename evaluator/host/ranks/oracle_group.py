"""The oracle ranks seen from the host: start them, give all of them the same command, collect one reply each."""

import contextlib
import itertools
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluator.arena.protocol import BARRIER_BYTES
from evaluator.contract import ErrorMap, OutputCheck, SlotKind, Verdict
from evaluator.errors import EvaluatorError
from evaluator.hardware.profiles import Profile
from evaluator.host.clock.call_clock import CallTime, ClockPage, GateClock, Opening, UnseenEnd
from evaluator.host.machine import gpus
from evaluator.host.process import procfs
from evaluator.host.process.spawner import Spawner
from evaluator.host.sandbox import bubblewrap, cpu_sets
from evaluator.host.settings import JudgeSettings
from evaluator.oracle import messages
from problems.schema import Regime

_ROOT = Path(__file__).parents[3]
_LOG_BYTES = 8192


@dataclass(frozen=True, kw_only=True)
class OpenedSize:
    """What the oracle ranks say of a problem at one size: its dimensions, groups, and room for outputs per rank.

    `slots` says whether contents will reach the sandbox through device memory.
    """

    dims: dict[str, int]
    groups: tuple[tuple[int, ...], ...]
    output_bytes: tuple[int, ...]
    slots: SlotKind


@dataclass(frozen=True, kw_only=True)
class PreparedInputs:
    """One rank's inputs of a call: a memory file that nobody can change, and whose tensors are which argument's.

    `areas` holds descriptors of device memory for inputs and outputs where the sandbox has to map it anew; `size` is
    how many bytes the rank takes in.
    """

    file: int
    areas: tuple[int, ...]
    tensors: tuple[str, ...]
    size: int

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Everything that the caller closes."""
        return (self.file, *self.areas)


@dataclass(frozen=True, kw_only=True)
class Content:
    """What is drawn for a call: its number, with `near` the call from which only a few elements differ, its regime."""

    index: int
    near: int | None = None
    regime: Regime | None = None

    def as_message(self) -> messages.Body:
        """This content for the oracle ranks."""
        return {"call": self.index, "near": self.near, "regime": "" if self.regime is None else self.regime.name}


@dataclass(frozen=True, kw_only=True)
class ReferenceTime:
    """One call of the reference: the host's clock, what the ranks' own events say (ns), and the bytes of a rank."""

    time: CallTime
    claims_ns: tuple[int, ...]
    input_bytes: int
    output_bytes: int


@dataclass(frozen=True, kw_only=True)
class RankCheck:
    """What the oracle found in one rank's outputs of one call; `unwritten` is the share that nobody wrote."""

    rank: int
    call: int
    output: str
    check: OutputCheck
    verdict: Verdict | None
    message: str
    stale: int | None
    unwritten: float
    error_map: ErrorMap | None = None


@dataclass(frozen=True, kw_only=True)
class Traces:
    """What was taken of every rank shows beside its values.

    `marks` are the outputs' fingerprints, None where not all of them were stored. `are_sealed` says whether samples of
    the inputs, taken when the end was told, are not what lies there now, and `are_late` the same of the outputs.
    """

    marks: tuple[str | None, ...]
    are_sealed: tuple[bool, ...]
    are_late: tuple[bool, ...]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What the oracle found in a call: one check per rank and output, and per rank what was taken shows besides.

    `changed` names an input per rank that the call changed though it may not, where inputs lie in device memory.
    """

    checks: list[RankCheck]
    traces: Traces
    digests: tuple[str, ...]
    changed: tuple[str | None, ...]


class OracleGroup:
    """Trusted ranks that live over many evaluations."""

    def __init__(
        self,
        profile: Profile,
        settings: JudgeSettings,
        *,
        spawner: Spawner,
        work_dir: Path,
        clock: GateClock | None = None,
    ) -> None:
        """Start the ranks; they get ready in the background. On GPUs `clock` times their calls."""
        self._profile = profile
        self._clock = clock
        self._clock_page = ClockPage()
        self._numbers = itertools.count(1)
        self._settings = settings
        self._private = Path(tempfile.mkdtemp(prefix="oracle-", dir=work_dir))
        self._log = os.memfd_create("oracle", os.MFD_CLOEXEC)
        self._channels: list[socket.socket] = []
        self._is_ready = False
        self._answered_at_ns = [0] * profile.world_size
        self._shares = cpu_sets.shares_for(profile)
        barrier = os.memfd_create("barrier", os.MFD_CLOEXEC)
        os.ftruncate(barrier, BARRIER_BYTES)
        inherited, described = [barrier], []
        for number in range(profile.world_size):
            host_end, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._channels.append(host_end)
            inherited.append(child_end.detach())
            described.append({"rank": number, "channel": inherited[-1]})
        orders = {
            "ranks": described,
            "world_size": profile.world_size,
            "device": profile.device,
            "process_group": profile.process_group,
            "store": str(self._private / "store"),
            "barrier": barrier,
            "clock": self._clock_page.descriptor,
            "threads": self._shares.threads(self._shares.oracle, world_size=profile.world_size),
            "cores": self._shares.oracle,
            "attentive_s": self._shares.attentive_s,
        }
        self._process = spawner.start(
            [sys.executable, "-m", "evaluator.oracle.launcher", json.dumps(orders)],
            descriptors=[*inherited, self._clock_page.descriptor],
            environment=_environment(profile),
            error_output=self._log,
            directory=str(_ROOT),
        )
        for descriptor in inherited:
            os.close(descriptor)

    @property
    def is_alive(self) -> bool:
        """Whether the ranks still run."""
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Return once every rank has joined its process group; raises EvaluatorError."""
        if not self._is_ready:
            self._collect("starting", self._settings.start_s)
            self._is_ready = True

    @property
    def processes(self) -> list[int]:
        """The launcher and its ranks."""
        return procfs.descendants(self._process.pid)

    def try_out(self, *, is_full: bool) -> tuple[str, ...]:
        """What the ranks' devices no longer do exactly, in words; raises EvaluatorError where one is silent."""
        replies = self._ask({"command": "canary", "is_full": is_full})
        return tuple(f"rank {rank}: {text}" for rank, (body, _) in enumerate(replies) for text in body["failures"])

    def open_size(self, *, problem: str, size: str, dtype: str, key: bytes) -> OpenedSize:
        """Point the ranks at a problem, size, dtype and secret; raises EvaluatorError."""
        message = {"command": "open", "problem": problem, "size": size, "dtype": dtype, "key": key.hex()}
        replies = [body for body, _ in self._ask(message)]
        groups = {tuple(ranks) for body in replies for ranks in body["groups"]}
        return OpenedSize(
            dims=replies[0]["dims"],
            groups=tuple(sorted(groups)),
            output_bytes=tuple(body["output_bytes"] for body in replies),
            slots=SlotKind(replies[0]["slots"]),
        )

    def prepare(
        self,
        content: Content,
        *,
        groups: Sequence[Sequence[int]],
        key: bytes,
        reuse: bool,
        poison: int | None = None,
        anew: bool = False,
    ) -> list[PreparedInputs]:
        """Each rank's inputs of a call, its device's output area poisoned; the caller closes the descriptors.

        In device memory they lie sealed under `key`, where those of the call before began with `reuse`. Wherever the
        sandbox did not get what was prepared last, device memory has to be announced `anew`.
        """
        replies = self._ask(
            {
                "command": "prepare",
                "content": content.as_message(),
                "groups": _lists(groups),
                "key": key.hex(),
                "reuse": reuse,
                "poison": poison,
                "anew": anew,
            }
        )
        return [
            PreparedInputs(
                file=descriptors[0], areas=tuple(descriptors[1:]), tensors=tuple(body["tensors"]), size=body["bytes"]
            )
            for body, descriptors in replies
        ]

    def compare(
        self,
        content: Content,
        headers: Sequence[list[messages.Body]],
        files: Sequence[int],
        *,
        key: bytes,
        earlier: Sequence[Content],
        poison: int | None = None,
    ) -> Comparison:
        """What every rank's outputs are worth; where wrong, whether they answer one of the `earlier` calls instead."""
        base = {
            "command": "compare",
            "content": content.as_message(),
            "key": key.hex(),
            "earlier": [other.as_message() for other in earlier],
            "poison": poison,
        }
        replies = [body for body, _ in self._ask_each([base | {"header": each} for each in headers], _each(files))]
        checks = []
        for rank, body in enumerate(replies):
            # Where the structure is wrong, checks and outputs do not correspond, and nothing was looked for.
            shares = body["unwritten"] if len(body["unwritten"]) == len(body["checks"]) else itertools.repeat(0.0)
            for item, share in zip(body["checks"], shares, strict=False):
                checks.append(_rank_check(rank, content.index, item, body["stale"], share))
        return Comparison(
            checks=checks,
            traces=_traces(replies),
            digests=tuple(body["digest"] for body in replies),
            changed=tuple(body["changed"] for body in replies),
        )

    def watch(self, number: int, page: ClockPage, *, limit_s: float) -> None:
        """Have the ranks copy samples of shared memory at the end of call `number`, which `page` will tell.

        Nothing is waited for; `watched` has to be asked for before anything else.
        """
        commands = [{"command": "watch", "number": number, "limit_s": limit_s}] * len(self._channels)
        self._send(commands, _each([page.descriptor] * len(self._channels)))

    def watched(self) -> tuple[int, ...]:
        """How long after the end each rank had its samples, in ns; -1 where there was no end; raises EvaluatorError."""
        return tuple(body["late_ns"] for body, _ in self._collect("watch", self._settings.oracle_s))

    def take_marks(self, headers: Sequence[list[messages.Body]], files: Sequence[int], *, key: bytes) -> Traces:
        """What outputs that are not compared show beside their values."""
        base = {"command": "mark", "key": key.hex()}
        replies = self._ask_each([base | {"header": each} for each in headers], _each(files))
        return _traces([body for body, _ in replies])

    def time_reference(self, content: Content, *, groups: Sequence[Sequence[int]], opening: Opening) -> ReferenceTime:
        """One call of the reference on its own copy of the contents.

        Raises:
            EvaluatorError: a rank is silent, or its device has not told the end of the call.
        """
        input_bytes = self._load(content, groups=groups, key=opening.key)
        time_taken, replies = self._timed({"command": "go"}, opening)
        return ReferenceTime(
            time=time_taken,
            claims_ns=tuple(body["claimed_ns"] for body, _ in replies),
            input_bytes=input_bytes,
            output_bytes=max(body["bytes"] for body, _ in replies),
        )

    def time_empty(self, content: Content, *, groups: Sequence[Sequence[int]], opening: Opening) -> CallTime:
        """One call like the reference's in which nothing is computed.

        Raises:
            EvaluatorError: a rank is silent, or its device has not told the end of the call.
        """
        self._load(content, groups=groups, key=opening.key)
        return self._timed({"command": "empty"}, opening)[0]

    def _load(self, content: Content, *, groups: Sequence[Sequence[int]], key: bytes) -> int:
        """Have the reference's inputs lie ready; how many bytes a rank takes in at most."""
        message = {"command": "load", "content": content.as_message(), "groups": _lists(groups), "key": key.hex()}
        return int(max(body["bytes"] for body, _ in self._ask(message)))

    def bare(self, *, opening: Opening) -> CallTime:
        """A call of nothing without any bytes; raises EvaluatorError."""
        return self._timed({"command": "bare"}, opening)[0]

    def warm_up(self) -> None:
        """Bring GPUs that were idle to the clocks of steady work; raises EvaluatorError."""
        self._ask({"command": "warm"})

    def loop(self, times: int) -> int:
        """The reference `times` times back to back on the inputs of its last call, in ns; raises EvaluatorError."""
        begun = time.monotonic_ns()
        self._ask({"command": "loop", "times": times})
        return max(self._answered_at_ns) - begun

    def _timed(
        self, command: messages.Body, opening: Opening
    ) -> tuple[CallTime, list[tuple[messages.Body, list[int]]]]:
        # The page keeps the numbers of ended calls, of earlier evaluations too: none may come again.
        number = next(self._numbers)
        begun = time.monotonic_ns()
        if self._clock is not None:
            self._clock.begin(self._clock_page, opening, number=number, limit_s=self._settings.oracle_s)
        try:
            replies = self._ask(command | {"number": number})
        except BaseException:
            if self._clock is not None:
                self._clock.abandon()
            raise
        if self._clock is None:
            return CallTime(done_ns=tuple(at - begun for at in self._answered_at_ns)), replies
        try:
            return self._clock.finish(), replies
        except UnseenEnd as unseen:
            raise EvaluatorError(f"oracle ranks: {unseen}") from unseen

    def _ask(self, message: messages.Body) -> list[tuple[messages.Body, list[int]]]:
        return self._ask_each([message] * len(self._channels), [()] * len(self._channels))

    def _ask_each(
        self, commands: Sequence[messages.Body], descriptors: Sequence[Sequence[int]]
    ) -> list[tuple[messages.Body, list[int]]]:
        self._send(commands, descriptors)
        return self._collect(str(commands[0]["command"]), self._settings.oracle_s)

    def _send(self, commands: Sequence[messages.Body], descriptors: Sequence[Sequence[int]]) -> None:
        try:
            for channel, message, files in zip(self._channels, commands, descriptors, strict=True):
                messages.send(channel, message, files)
        except OSError as error:
            raise EvaluatorError(f"an oracle rank has gone: {error}; {self._log_text()}") from error

    def _collect(self, doing: str, seconds: float) -> list[tuple[messages.Body, list[int]]]:
        replies: dict[int, tuple[messages.Body, list[int]]] = {}
        start = time.monotonic()
        deadline, awake_until = start + seconds, start + self._shares.attentive_s if self._is_ready else start
        with selectors.DefaultSelector() as selector:
            for number, channel in enumerate(self._channels):
                selector.register(channel, selectors.EVENT_READ, number)
            while len(replies) < len(self._channels):
                now = time.monotonic()
                ready = selector.select(0 if now < awake_until else max(0.0, deadline - now))
                if not ready and now < awake_until:
                    continue
                if not ready:
                    raise EvaluatorError(f"the oracle ranks did not answer {doing!r} within {seconds:g} s")
                for key, _ in ready:
                    replies[key.data] = self._receive(key.data, doing)
                    self._answered_at_ns[key.data] = time.monotonic_ns()
                    selector.unregister(key.fileobj)
        return [replies[number] for number in range(len(self._channels))]

    def _receive(self, number: int, doing: str) -> tuple[messages.Body, list[int]]:
        try:
            reply = messages.receive(self._channels[number])
        except OSError as error:
            raise EvaluatorError(f"oracle rank {number} has gone during {doing!r}: {error}") from error
        if reply is None:
            raise EvaluatorError(f"oracle rank {number} ended during {doing!r}: {self._log_text()}")
        if "error" in reply[0]:
            raise EvaluatorError(f"oracle rank {number} failed during {doing!r}: {reply[0]['error']}")
        return reply

    def _log_text(self) -> str:
        size = os.fstat(self._log).st_size
        return os.pread(self._log, _LOG_BYTES, max(0, size - _LOG_BYTES)).decode("utf-8", "replace")

    def close(self) -> None:
        """End the ranks and free what the host held."""
        for channel in self._channels:
            channel.close()
        # Ranks and launcher share a session of their own, which nothing of a submission ever joins.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=30)
        os.close(self._log)
        self._clock_page.close()
        shutil.rmtree(self._private, ignore_errors=True)


def _environment(profile: Profile) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH", "PYTHONPATH") if name in os.environ}
    ours = bubblewrap.environment(profile)
    return {
        **{name: value for name, value in ours.items() if name.startswith(("NCCL", "GLOO", "TORCH_SYMM", "NVSHMEM"))},
        **gpus.environment(profile),
        **kept,
    }


def _lists(groups: Sequence[Sequence[int]]) -> list[list[int]]:
    return [list(ranks) for ranks in groups]


def _traces(replies: Sequence[messages.Body]) -> Traces:
    return Traces(
        marks=tuple(body["mark"] for body in replies),
        are_sealed=tuple(0 in body["unlike"] for body in replies),
        are_late=tuple(1 in body["unlike"] for body in replies),
    )


def _each(files: Sequence[int]) -> list[list[int]]:
    return [[file] for file in files]


def _rank_check(rank: int, call: int, item: messages.Body, stale: int | None, unwritten: float) -> RankCheck:
    first_wrong = item["first_wrong"]
    return RankCheck(
        rank=rank,
        call=call,
        output=item["output"],
        check=OutputCheck(
            rank=rank,
            output=item["output"],
            elements=item["elements"],
            wrong_elements=item["wrong_elements"],
            max_error=item["max_error"],
            rms_error=item["rms_error"],
            first_wrong=tuple(first_wrong) if first_wrong is not None else None,
        ),
        verdict=Verdict(item["verdict"]) if item["verdict"] is not None else None,
        message=item["message"] or "",
        stale=stale,
        unwritten=unwritten,
        error_map=ErrorMap.from_json(item["error_map"]) if item["error_map"] is not None else None,
    )
