"""Judges a file of requests without a site: compiles ahead beside the judging, resumes, and ends before a limit.

For machines that no site can reach. The folder of results holds `results.jsonl`, one line per report, and the reports
themselves, compressed, in `reports/`. A second call with the same folder judges what has no verdict there yet.
"""

import gzip
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from evaluator.contract import ContractError, EarlierTry, EvaluationReport, EvaluationRequest, Message, Stage, Verdict
from evaluator.errors import Cancelled
from evaluator.host import Judge, JudgeSettings
from evaluator.host.build_ahead import BuildAhead, Builders
from evaluator.judging.verdicts import FACTS
from problems import registry

logger = logging.getLogger(__name__)

CLOSING_S = 20.0
"""Before the limit: from here on nothing is judged or compiled, and every process is ended."""

BEGIN_S = 15.0
"""No judgement begins with less than this before the closing."""

_MOST_TRIES = 3
_BEFORE_CALLS = (Stage.PREPARING, Stage.BUILDING, Stage.STARTING)
_HANGS = frozenset({Verdict.DEADLOCK, Verdict.TIMEOUT})
_LOOK_S = 1.0


class BatchError(Exception):
    """The requests or the folder of results cannot be read; the text names the file and the line."""


class Line(Message, frozen=True, kw_only=True):
    """One report of a batch, in `results.jsonl`. Times in seconds.

    Attributes:
        build_s: spent by a builder ahead of the judging; None where nothing was compiled ahead.
        waited_s: between the end of that build and the start of the judgement.
        idle_s: the slot had nothing to judge before this.
        judged_s: from the start of the judgement to the report; 0 where a builder decided.
        gap_s: from the report before to this one's first call: idle time, and the stages until the ranks are ready.
    """

    evaluation_id: str
    problem: str
    profile: str
    backend: str
    mode: str
    source_digest: str
    revision: str
    attempt: int
    verdict: Verdict
    message: str
    score: float | None = None
    low: float | None = None
    high: float | None = None
    build_s: float | None = None
    waited_s: float = 0.0
    idle_s: float = 0.0
    judged_s: float = 0.0
    gap_s: float | None = None
    stages: dict[str, float] = {}
    report: str
    at: str

    @property
    def is_final(self) -> bool:
        """Whether a later call leaves it: a verdict, or the last try of a failure of the judge."""
        return not FACTS[self.verdict].is_retried or self.attempt >= _MOST_TRIES


@dataclass(frozen=True, kw_only=True)
class Built:
    """A request that a slot can take, and the report where its build decided the verdict."""

    order: int
    request: EvaluationRequest
    seconds: float | None
    at: float
    report: EvaluationReport | None = None


def read_requests(path: Path) -> list[EvaluationRequest]:
    """The requests in `path`, one JSON object per line, compressed where the name ends in .gz; raises BatchError."""
    try:
        raw = path.read_bytes()
        lines = (gzip.decompress(raw) if path.suffix == ".gz" else raw).splitlines()
    except (OSError, EOFError) as error:
        raise BatchError(f"cannot read {path}: {error}") from error
    requests = []
    for number, line in enumerate(lines, start=1):
        try:
            requests.append(EvaluationRequest.from_json(line))
        except ContractError as error:
            raise BatchError(f"{path}, line {number}, is no evaluation request: {error}") from error
    return requests


@dataclass
class Results:
    """The folder of results: its lines, and the reports beside them."""

    folder: Path
    lines: list[Line] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.folder / "reports").mkdir(parents=True, exist_ok=True)
        if not self._path.is_file():
            return
        for number, line in enumerate(self._path.read_bytes().splitlines(), start=1):
            try:
                self.lines.append(Line.from_json(line))
            except ContractError as error:
                raise BatchError(f"{self._path}, line {number}, is no result: {error}") from error

    @property
    def _path(self) -> Path:
        return self.folder / "results.jsonl"

    def add(self, line: Line, report: EvaluationReport) -> None:
        """Store a report, then its line, so that no line names a report that is missing."""
        path = self.folder / line.report
        scratch = path.with_suffix(".tmp")
        scratch.write_bytes(gzip.compress(report.to_json().encode(), mtime=0))
        scratch.replace(path)
        self.lines.append(line)
        with self._path.open("a") as file:
            file.write(line.to_json() + "\n")

    def outstanding(self, requests: Sequence[EvaluationRequest]) -> Iterator[EvaluationRequest]:
        """The requests without a final line, each with its earlier tries."""
        for request in requests:
            tries = [line for line in self.lines if line.evaluation_id == request.evaluation_id]
            if not any(line.is_final for line in tries):
                earlier = tuple(
                    EarlierTry(attempt=line.attempt, verdict=line.verdict, reason=line.message) for line in tries
                )
                yield msgspec.structs.replace(
                    request, attempt=request.attempt + len(tries), earlier=(*request.earlier, *earlier)
                )


@dataclass
class Batch:
    """Judges requests of one profile, in their order where their builds allow it.

    Args:
        settings: of the one slot, and of the builders.
        builders: how many compile at once.
        waiting: at most so many are compiled and wait for the slot.
        ends_at: the time, by `time.monotonic`, at which every process has ended.
        say: takes each line that a person may want to read.
        renews: whether a request for another revision of its problem is judged by the one that is installed here.
    """

    settings: JudgeSettings
    builders: int
    waiting: int
    ends_at: float
    results: Results
    say: Callable[[str], None]
    renews: bool = False

    def __post_init__(self) -> None:
        self._stopped = threading.Event()
        self._room = threading.Semaphore(self.waiting + max(1, self.builders))
        self._busy_s = 0.0
        self._began: float | None = None
        self._ended = time.monotonic()

    def stop(self) -> None:
        """End early, as at the limit."""
        self._stopped.set()

    def run(self, requests: Sequence[EvaluationRequest]) -> str:
        """Judge what has no verdict yet; returns why the slot must not go on, empty for an ordinary end."""
        self._first_line, outstanding = len(self.results.lines), list(self._known(requests))
        if not outstanding:
            return ""
        ahead = Builders(self.builders, make=lambda: BuildAhead(self.settings))
        with closing(ahead) as builders, Judge(self.settings) as judge:
            builders.prepare()
            pool = ThreadPoolExecutor(max(1, self.builders), thread_name_prefix="builder")
            try:
                pending = {pool.submit(self._build, builders, order, each) for order, each in enumerate(outstanding)}
                return self._judge_all(judge, pending)
            finally:
                self._stopped.set()
                pool.shutdown(cancel_futures=True)

    def summary(self) -> str:
        """What this call came to, in a few lines."""
        lines = self.results.lines[self._first_line :]
        if not lines or self._began is None:
            return "nothing was judged"
        seconds = self._ended - self._began
        hangs = [line for line in lines if line.verdict in _HANGS]
        hung_s = sum(line.judged_s for line in hangs)
        others = len(lines) - len(hangs)
        gaps = sorted(line.gap_s for line in lines if line.gap_s is not None)
        verdicts = Counter(line.verdict.value for line in lines)
        sentences = [
            f"{len(lines)} verdicts in {seconds:.0f} s since the first build: {60 * len(lines) / seconds:.2f} a minute",
            f"without {len(hangs)} hangs of {hung_s:.0f} s: {60 * others / max(seconds - hung_s, 1e-9):.2f} a minute",
            f"the slot judged {100 * self._busy_s / seconds:.0f} % of that time",
            ", ".join(f"{name} {number}" for name, number in sorted(verdicts.items())),
        ]
        if gaps:
            sentences.append(
                f"from a verdict to the next call: median {gaps[len(gaps) // 2]:.2f} s, most {gaps[-1]:.2f} s"
            )
        return "\n".join(sentences)

    def _known(self, requests: Sequence[EvaluationRequest]) -> Iterator[EvaluationRequest]:
        """What this machine can judge of what has no verdict yet; the rest is named and left."""
        for request in self.results.outstanding(requests):
            wanted = _renewed(request) if self.renews else request
            reason = _refusal(wanted, self.settings.profile)
            if reason:
                self.say(f"left out: {request.problem} ({request.evaluation_id}): {reason}")
            else:
                yield wanted

    @property
    def _is_over(self) -> bool:
        return self._stopped.is_set() or time.monotonic() > self.ends_at - CLOSING_S

    # ---- the builders' threads ------------------------------------------------------------------------------------

    def _build(self, builders: Builders, order: int, request: EvaluationRequest) -> Built | None:
        """Compile one request once there is room among those that wait; None at the end of the batch."""
        while not self._room.acquire(timeout=_LOOK_S):
            if self._is_over:
                return None
        began = time.monotonic()
        try:
            report = builders.build(request, cancelled=lambda: self._is_over)
        except Cancelled:
            return None
        ended = time.monotonic()
        seconds = ended - began if self.builders else None
        return Built(order=order, request=request, seconds=seconds, at=ended, report=report)

    # ---- the slot -------------------------------------------------------------------------------------------------

    def _judge_all(self, judge: Judge, pending: set[Future[Built | None]]) -> str:
        ready: list[Built] = []
        free_since = time.monotonic()
        while not self._is_over and (ready or pending):
            done, pending = wait(pending, timeout=0 if ready else _LOOK_S, return_when=FIRST_COMPLETED)
            ready += [built for future in done if (built := future.result()) is not None]
            if not ready:
                continue
            self._began = self._began or time.monotonic()
            # What a compiler has decided needs no slot and frees its room for another build.
            built = min(ready, key=lambda each: (each.report is None, each.order))
            ready.remove(built)
            if built.report is None and time.monotonic() > self.ends_at - CLOSING_S - BEGIN_S:
                break
            self._room.release()
            if not self._judged(judge, built, free_since=free_since):
                break
            if built.report is None:
                free_since = time.monotonic()
            if judge.quarantine:
                return judge.quarantine
        return ""

    def _judged(self, judge: Judge, built: Built, *, free_since: float) -> bool:
        """Store the report on one request; false where the end of the batch came first."""
        began = time.monotonic()
        report = built.report
        if report is None:
            try:
                report = judge.evaluate(built.request, cancelled=lambda: self._is_over)
            except Cancelled:
                return False
            report = msgspec.structs.replace(report, earlier=built.request.earlier)
        self._ended = time.monotonic()
        judged_s = 0.0 if built.report is not None else self._ended - began
        self._busy_s += judged_s
        if judge.error_log and built.report is None:
            logger.error("%s: %s", built.request.problem, judge.error_log)
        line = _line(built, report, began=began, judged_s=judged_s, idle_s=began - free_since)
        self.results.add(line, report)
        self.say(_shown(line, number=len(self.results.lines)))
        return True


def _renewed(request: EvaluationRequest) -> EvaluationRequest:
    """The request for the revision that is installed here, where the problem is."""
    try:
        return msgspec.structs.replace(request, revision=registry.revision(request.problem))
    except registry.UnknownProblem:
        return request


def _refusal(request: EvaluationRequest, profile: str) -> str:
    """Why this machine does not judge a request; empty where it does."""
    if request.profile != profile:
        return f"it is for {request.profile}, and this batch judges for {profile}"
    try:
        installed = registry.revision(request.problem)
    except registry.UnknownProblem as error:
        return str(error)
    if installed != request.revision:
        return f"the problem is of revision {installed} here, and of {request.revision} in the request"
    return ""


def _line(built: Built, report: EvaluationReport, *, began: float, judged_s: float, idle_s: float) -> Line:
    request, timing = built.request, report.timing
    before = [each.seconds for each in report.stages if each.stage in _BEFORE_CALLS]
    return Line(
        evaluation_id=request.evaluation_id,
        problem=request.problem,
        profile=request.profile,
        backend=request.backend.value,
        mode=request.mode.value,
        source_digest=report.source_digest,
        revision=report.revision,
        attempt=request.attempt,
        verdict=report.verdict,
        message=report.message,
        score=timing.score if timing else None,
        low=timing.low if timing else None,
        high=timing.high if timing else None,
        build_s=None if built.seconds is None else round(built.seconds, 2),
        waited_s=round(began - built.at, 2),
        idle_s=round(idle_s, 2),
        judged_s=round(judged_s, 2),
        gap_s=round(idle_s + sum(before), 2) if built.report is None else None,
        stages={each.stage.value: round(each.seconds, 2) for each in report.stages},
        report=f"reports/{request.evaluation_id}-{request.attempt}.json.gz",
        at=report.finished_at,
    )


def _shown(line: Line, *, number: int) -> str:
    outcome = line.message[:100] if line.score is None else f"{line.score:.3f} [{line.low:.3f}, {line.high:.3f}]"
    build = "" if line.build_s is None else f"build {line.build_s:.1f} s, waited {line.waited_s:.1f} s, "
    times = f"{build}idle {line.idle_s:.1f} s, judged {line.judged_s:.1f} s, to the first call {line.gap_s or 0:.1f} s"
    return f"{number:4} {line.problem:44} {line.backend:8} {line.verdict.value:18} {times}  {outcome}"
