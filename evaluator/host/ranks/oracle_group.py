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
from evaluator.host.machine import gpus
from evaluator.host.process import procfs
from evaluator.host.process.spawner import Spawner
from evaluator.host.sandbox import bubblewrap, cpu_sets
from evaluator.host.settings import JudgeSettings
from evaluator.oracle import messages

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
    """One rank's inputs of a call: a sealed memory file, and for each tensor in it the argument that it belongs to.

    `areas` holds descriptors of device memory for inputs and outputs where the sandbox has to map it anew; `size` is
    how many bytes the rank takes in, and `room` where its outputs begin in device memory.
    """

    file: int
    areas: tuple[int, ...]
    tensors: tuple[str, ...]
    size: int
    room: int

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Everything that the caller closes."""
        return (self.file, *self.areas)


@dataclass(frozen=True, kw_only=True)
class Content:
    """What is drawn for a call: its number, and with `near` the call from which only a few elements differ."""

    index: int
    near: int | None = None

    def as_message(self) -> messages.Body:
        """This content for the oracle ranks."""
        return {"call": self.index, "near": self.near}


@dataclass(frozen=True, kw_only=True)
class ReferenceTime:
    """One call of the reference in nanoseconds: every rank's time, and how long the host waited for the answers.

    `window_ns` also holds what came before `GO` where the ranks read their inputs as sandbox ranks do.
    """

    claims_ns: tuple[int, ...]
    answer_ns: int
    window_ns: int

    @property
    def longest_ns(self) -> int:
        """The slowest rank's time."""
        return max(self.claims_ns)


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
class Comparison:
    """What the oracle found in a call: one check per rank and output; of what was taken, fingerprint and digest."""

    checks: list[RankCheck]
    fingerprints: tuple[int | None, ...]
    digests: tuple[str, ...]


class OracleGroup:
    """Trusted ranks that live over many evaluations."""

    def __init__(self, profile: Profile, settings: JudgeSettings, *, spawner: Spawner, work_dir: Path) -> None:
        """Start the ranks; they get ready in the background."""
        self._profile = profile
        self._settings = settings
        self._private = Path(tempfile.mkdtemp(prefix="oracle-", dir=work_dir))
        self._log = os.memfd_create("oracle", os.MFD_CLOEXEC)
        self._channels: list[socket.socket] = []
        self._is_ready = False
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
            "threads": self._shares.threads(self._shares.oracle, world_size=profile.world_size),
            "cores": self._shares.oracle,
            "attentive_s": self._shares.attentive_s,
        }
        self._process = spawner.start(
            [sys.executable, "-m", "evaluator.oracle.launcher", json.dumps(orders)],
            descriptors=inherited,
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
        poison: int | None = None,
        place: int = 0,
        places: int = 1,
        anew: bool = False,
    ) -> list[PreparedInputs]:
        """Each rank's inputs of a call, its device's output area poisoned; the caller closes the descriptors.

        Where contents lie in device memory, nobody can read them before `publish`. The calls of a burst are prepared
        one after the other, each for its `place` among `places`; there are none where contents do not fit into theirs.
        After that, and wherever the sandbox did not get what was prepared, device memory has to be announced `anew`.
        """
        message = {
            "command": "prepare",
            "content": content.as_message(),
            "groups": _lists(groups),
            "poison": poison,
            "place": place,
            "places": places,
            "anew": anew,
        }
        replies = self._ask(message)
        if not all(body["fits"] for body, _ in replies):
            for descriptor in (one for _, descriptors in replies for one in descriptors):
                os.close(descriptor)
            return []
        return [
            PreparedInputs(
                file=descriptors[0],
                areas=tuple(descriptors[1:]),
                tensors=tuple(body["tensors"]),
                size=body["bytes"],
                room=body["room"],
            )
            for body, descriptors in replies
        ]

    def publish(self) -> None:
        """Put what was prepared last where the sandbox can read it; raises EvaluatorError where a rank is silent."""
        self._ask({"command": "publish", "as_rank": False})

    def compare(
        self,
        content: Content,
        headers: Sequence[list[messages.Body]],
        files: Sequence[int],
        *,
        earlier: Sequence[Content],
        poison: int | None = None,
        rooms: Sequence[int] | None = None,
    ) -> Comparison:
        """What every rank's outputs are worth; where wrong, whether they answer one of the `earlier` calls instead.

        With `rooms` they begin there in device memory, rank by rank.
        """
        base = {
            "command": "compare",
            "content": content.as_message(),
            "earlier": [other.as_message() for other in earlier],
            "poison": poison,
        }
        rooms = rooms or [0] * len(headers)
        commands = [base | {"header": header, "room": room} for header, room in zip(headers, rooms, strict=True)]
        replies = [body for body, _ in self._ask_each(commands, [[file] for file in files])]
        checks = []
        for rank, body in enumerate(replies):
            # Where the structure is wrong, checks and outputs do not correspond, and nothing was looked for.
            shares = body["unwritten"] if len(body["unwritten"]) == len(body["checks"]) else itertools.repeat(0.0)
            for item, share in zip(body["checks"], shares, strict=False):
                checks.append(_rank_check(rank, content.index, item, body["stale"], share))
        return Comparison(
            checks=checks,
            fingerprints=tuple(body["fingerprint"] for body in replies),
            digests=tuple(body["digest"] for body in replies),
        )

    def time_reference(
        self, content: Content, *, groups: Sequence[Sequence[int]], as_rank: bool = False
    ) -> ReferenceTime:
        """One call of the reference on its own copy of the contents.

        With `as_rank` the ranks also do what oracle and sandbox ranks do around a call: they publish and read inputs,
        store outputs and compare inputs.
        """
        self._ask({"command": "load", "content": content.as_message(), "groups": _lists(groups), "as_rank": as_rank})
        start = time.monotonic_ns()
        if as_rank:
            self._ask({"command": "publish", "as_rank": True})
            self._ask({"command": "read"})
        released = time.monotonic_ns()
        replies = self._ask({"command": "go", "as_rank": as_rank})
        answered = time.monotonic_ns()
        return ReferenceTime(
            claims_ns=tuple(body["claimed_ns"] for body, _ in replies),
            answer_ns=answered - released,
            window_ns=answered - start,
        )

    def _ask(self, message: messages.Body) -> list[tuple[messages.Body, list[int]]]:
        return self._ask_each([message] * len(self._channels), [()] * len(self._channels))

    def _ask_each(
        self, commands: Sequence[messages.Body], descriptors: Sequence[Sequence[int]]
    ) -> list[tuple[messages.Body, list[int]]]:
        try:
            for channel, message, files in zip(self._channels, commands, descriptors, strict=True):
                messages.send(channel, message, files)
        except OSError as error:
            raise EvaluatorError(f"an oracle rank has gone: {error}; {self._log_text()}") from error
        return self._collect(str(commands[0]["command"]), self._settings.oracle_s)

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
