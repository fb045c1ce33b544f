"""The host's side of the oracle ranks: commands and replies."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from evaluator.contract import BufferKind
from evaluator.errors import EvaluatorError
from evaluator.host.clock.call_clock import GateClock
from evaluator.host.ranks.trusted_client import TrustedRankClient
from evaluator.oracle import messages
from evaluator.oracle.messages import CheckedOutput, Reader
from problems.spec.schema import Regime

NOTHING_MAPPED = -1
"""The number of a rank's areas before it has any."""

Outputs = tuple[Sequence[list[messages.Body]], Sequence[int]]
"""What ranks returned: descriptions, and files."""


@dataclass(frozen=True, kw_only=True)
class OpenedSize:
    """A problem opened at one size on a number of ranks: its dimensions and process groups.

    `buffers` says how inputs reach the sandbox, and `cache_bytes` is the device's L2 cache.
    """

    dims: dict[str, int]
    groups: tuple[tuple[int, ...], ...]
    ranks: int
    buffers: BufferKind
    cache_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class PreparedInputs:
    """One rank's inputs of a call: a memory file that nobody can change, and the argument of each tensor in it.

    `areas` has descriptors of device memory for inputs and outputs where the rank that runs the call has others mapped.
    `areas_number` is these areas' number, `size` is how many bytes the rank takes in, and `room` how many its outputs
    may take. `layout` is the same in calls whose arguments differ only in values of tensors and in fractions.
    """

    file: int
    areas: tuple[int, ...]
    areas_number: int
    tensors: tuple[str, ...]
    size: int
    room: int
    layout: str = ""

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Everything that the caller closes."""
        return (self.file, *self.areas)


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """What is drawn for a call: its number, with `near` the call from which only a few elements differ, its regime."""

    index: int
    near: int | None = None
    regime: Regime | None = None

    def as_message(self) -> messages.Body:
        """This draw as a message to the oracle ranks."""
        return {"call": self.index, "near": self.near, "regime": "" if self.regime is None else self.regime.name}


@dataclass(frozen=True, kw_only=True)
class Traces:
    """What the outputs taken show beside their values.

    `marks` are the outputs' fingerprints, None where not all of them were stored. `are_sealed` says whether samples of
    the inputs, taken at the end of the call, differ from the inputs now, and `are_late` the same of the outputs.
    """

    marks: tuple[str | None, ...]
    are_sealed: tuple[bool, ...]
    are_late: tuple[bool, ...]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What the oracle found in a call: one check per rank and output, and the traces of every rank.

    `changed` names, per rank, an input in device memory that the call must not change and did change.
    """

    checks: list[CheckedOutput]
    traces: Traces
    digests: tuple[str, ...]
    changed: tuple[str | None, ...]


class OracleGroup:
    """Trusted ranks that draw inputs, watch over calls, and compare outputs."""

    def __init__(self, client: TrustedRankClient, *, clock: GateClock | None) -> None:
        self._client = client
        self._clock = clock

    def try_out(self, *, is_full: bool) -> tuple[str, ...]:
        """The failures of the ranks' canary, in words; raises EvaluatorError where a rank is silent."""
        replies = self._client.ask({"command": "canary", "is_full": is_full})
        return tuple(f"rank {rank}: {text}" for rank, (body, _) in enumerate(replies) for text in body["failures"])

    def open_size(self, *, problem: str, size: str, dtype: str, key: bytes) -> OpenedSize:
        """As `TrustedRanks.open_size`, for these ranks."""
        message = {"command": "open", "problem": problem, "size": size, "dtype": dtype, "key": key.hex()}
        replies = [body for body, _ in self._client.ask(message)]
        groups = {tuple(ranks) for body in replies for ranks in body["groups"]}
        return OpenedSize(
            dims=replies[0]["dims"],
            groups=tuple(sorted(groups)),
            ranks=len(replies),
            buffers=BufferKind(replies[0]["buffers"]),
            cache_bytes=replies[0]["cache_bytes"],
        )

    def prepare(
        self,
        spec: InputSpec,
        *,
        groups: Sequence[Sequence[int]],
        key: bytes,
        reuse: bool,
        poison: int | None = None,
        reader: Reader,
        mapped: Sequence[int],
    ) -> list[PreparedInputs]:
        """Each rank's inputs of a call, its device's output area poisoned; the caller closes the descriptors.

        In device memory, of which either `reader` has its own, they lie sealed under `key`, where those of the call
        before began with `reuse`. Descriptors of it come where its number is not what `mapped` has for a rank.
        """
        base = {
            "command": "prepare",
            "draw": spec.as_message(),
            "groups": groups,
            "key": key.hex(),
            "reuse": reuse,
            "poison": poison,
            "reader": reader,
        }
        replies = self._client.ask_each([base | {"mapped": number} for number in mapped], [()] * len(mapped))
        return [
            PreparedInputs(
                file=descriptors[0],
                areas=tuple(descriptors[1:]),
                areas_number=body["areas"],
                tensors=tuple(body["tensors"]),
                size=body["bytes"],
                room=body["room"],
                layout=body["layout"],
            )
            for body, descriptors in replies
        ]

    def compare(
        self,
        spec: InputSpec,
        headers: Sequence[list[messages.Body]],
        files: Sequence[int],
        *,
        key: bytes,
        earlier: Sequence[InputSpec],
        poison: int | None = None,
    ) -> Comparison:
        """Compare every rank's outputs; wrong ones also with the expected outputs of `earlier` calls."""
        base = {
            "command": "compare",
            "draw": spec.as_message(),
            "key": key.hex(),
            "earlier": [other.as_message() for other in earlier],
            "poison": poison,
        }
        replies = [
            body for body, _ in self._client.ask_each([base | {"header": each} for each in headers], _each(files))
        ]
        checks = [body["checks"] for body in replies]
        return Comparison(
            checks=msgspec.convert(list(itertools.chain.from_iterable(checks)), list[CheckedOutput]),
            traces=_traces(replies),
            digests=tuple(body["digest"] for body in replies),
            changed=tuple(body["changed"] for body in replies),
        )

    def difference(self, ours: Outputs, references: Outputs) -> str:
        """How the first rank that differs by the published rule differs from the reference; "" where none does."""
        commands = [{"command": "differ", "headers": pair} for pair in zip(ours[0], references[0], strict=True)]
        replies = self._client.ask_each(commands, list(zip(ours[1], references[1], strict=True)))
        found = (f"rank {rank}: {body['differs']}" for rank, (body, _) in enumerate(replies) if body["differs"])
        return next(found, "")

    @contextmanager
    def watching(self, *, limit_s: float) -> Iterator[None]:
        """Have the ranks copy samples of shared memory at the end of the call that is being timed.

        Raises:
            EvaluatorError: a rank is silent, or has missed the end.
        """
        assert self._clock is not None, "device memory comes with GPUs, and those with a clock"
        ticket = self._clock.upcoming
        command = {"command": "watch", "ticket": ticket, "limit_s": limit_s}
        self._client.send([command] * self._client.ranks, [()] * self._client.ranks)
        try:
            yield
        except BaseException:
            self._clock.give_up(ticket)
            self._client.collect("watch")
            raise
        if any(body["late_ns"] < 0 for body, _ in self._client.collect("watch")):
            raise EvaluatorError("an oracle rank has missed the end of a call that the gatekeeper has seen")

    def take_marks(self, headers: Sequence[list[messages.Body]], files: Sequence[int], *, key: bytes) -> Traces:
        """The traces of outputs that are not compared."""
        base = {"command": "mark", "key": key.hex()}
        replies = self._client.ask_each([base | {"header": each} for each in headers], _each(files))
        return _traces([body for body, _ in replies])

    def warm_up(self) -> None:
        """Bring GPUs that were idle to the clocks of steady work; raises EvaluatorError."""
        self._client.ask({"command": "warm"})


def _traces(replies: Sequence[messages.Body]) -> Traces:
    return Traces(
        marks=tuple(body["mark"] for body in replies),
        are_sealed=tuple(0 in body["unlike"] for body in replies),
        are_late=tuple(1 in body["unlike"] for body in replies),
    )


def _each(files: Sequence[int]) -> list[list[int]]:
    return [[file] for file in files]
