"""The outputs of calls at one size: files for them, taken from the ranks and compared by the oracle ranks."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from evaluator.arena.protocol import OUTPUT_HEADER_BYTES
from evaluator.contract import BufferKind, Verdict
from evaluator.host.measure import outputs
from evaluator.host.measure.call_checks import VALUE_VERDICTS
from evaluator.host.measure.call_setup import CallSetup
from evaluator.host.measure.evidence import Ended
from evaluator.host.ranks.oracle_group import Comparison, Draw, RankCheck
from evaluator.judging.checks import Check

_REMEMBERED = 3


@dataclass(frozen=True, kw_only=True)
class Taken:
    """The outputs of one call in files that no rank can change: by rank, what its shim wrote of them, and the file."""

    headers: Sequence[list[dict[str, object]]]
    files: list[int]


class CallOutputs:
    """Takes outputs and has them compared.

    Attributes:
        earlier: the draws with which stale outputs are compared.
    """

    def __init__(self, setup: CallSetup) -> None:
        self._oracle = setup.group_setup.trusted.oracle
        self._policy = setup.group_setup.policy
        self._opened = setup.opened
        self._at_size = setup.at_size
        self._checks = setup.checks
        self._comparisons_s: list[float] = []
        self.earlier: list[Draw] = []

    @property
    def comparing_s(self) -> float:
        """Median seconds of a full comparison so far; 0 before the first."""
        return median(self._comparisons_s) if self._comparisons_s else 0.0

    def remember(self, draw: Draw) -> None:
        """Compare stale outputs with those of `draw` from now on: it is one of the latest, or the first."""
        self.earlier = [*self.earlier[:1], *self.earlier[1:][-_REMEMBERED:], draw]

    def new_files(self, poison: bytes) -> list[int]:
        """An output file per rank. With device memory the oracle poisons it, and the file holds only descriptions."""
        return outputs.create_all(self._opened.output_bytes, poison=poison if self._are_whole else b"")

    def take(self, target: int) -> int:
        """What a rank wrote into `target`, in a file of ours."""
        # With device memory the file holds only the description; the oracle copies the elements.
        return outputs.take(target) if self._are_whole else outputs.take(target, leading=OUTPUT_HEADER_BYTES)

    def read(self, files: list[int]) -> Taken:
        """The files with their headers; raises Ended where something else than the shim wrote one."""
        return Taken(headers=[self._header(rank, file) for rank, file in enumerate(files)], files=files)

    def compare(self, draw: Draw, taken: Taken, *, key: bytes, poison: int | None) -> Comparison:
        """The outputs against the expected ones of `draw`; checks that are switched off are left out."""
        start = time.monotonic()
        compared = self._oracle.compare(draw, taken.headers, taken.files, key=key, earlier=self.earlier, poison=poison)
        self._comparisons_s.append(time.monotonic() - start)
        checks = [item for item in compared.checks if self._counts(item)]
        self._at_size.add(checks)
        return replace(compared, checks=checks)

    def _counts(self, item: RankCheck) -> bool:
        is_value = item.verdict in VALUE_VERDICTS
        return (not is_value or self._policy.does(Check.VALUES)) and (
            item.rank == 0 or self._policy.does(Check.EVERY_RANK)
        )

    def _header(self, rank: int, file: int) -> list[dict[str, object]]:
        try:
            return outputs.read_header(file)
        except outputs.HeaderError as error:
            message = f"rank {rank}: something other than the judge's shim wrote the output file ({error})"
            raise Ended([self._checks.finding(Verdict.TAMPERED, message, rank=rank)]) from error

    @property
    def _are_whole(self) -> bool:
        return self._opened.buffers is BufferKind.HOST_MEMORY
