"""A program in, a verdict out: judged by a site, or by the judge of a checkout on this machine.

The adapters for other people's harnesses stand on this. Waiting threads are daemons, so that Ctrl-C ends a harness
while a judge still works. The same program is judged once: a harness that is resumed gets the verdict that there is.
"""

import asyncio
import hashlib
import itertools
import math
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from . import credentials, outcomes
from .chat import source_in
from .client import Client
from .diagnosis import diagnosis, diagnosis_of_report
from .errors import PkbError, Refused, UsageError
from .local_commands import python_of
from .packing import ENTRY
from .results import Attempt, Report, Submission
from .runs import NewAttempt

MOST_SOURCE_BYTES = 512 * 1024
"""What the judge takes; a longer answer of a model is refused here, without a judge."""
MOST_TRIES = 4
"""How often a program is submitted whose judge fails."""
PATIENCE_S = 3600.0
_NOT_BUILT = frozenset({"NO_PROGRAM", "COMPILE_ERROR", "IMPORT_ERROR", "FORBIDDEN", "LIMIT_EXCEEDED", "REFUSED"})
_NOT_RUN = frozenset({"RUNTIME_ERROR", "CRASHED", "OUT_OF_MEMORY", "DEADLOCK", "TIMEOUT", "EARLY_EXIT"})
_Result = TypeVar("_Result")


class NoVerdict(PkbError):
    """Nobody judged the program: the judge is away or fails. It says nothing about the model."""


class Graded(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one program.

    Attributes:
        verdict: the judge's word; NO_PROGRAM where an answer holds none, REFUSED where a site takes none of its sort.
        message: the outcome in a sentence.
        diagnosis: what a person reads on the page.
        judge_s: seconds that the judge worked; 0 where nothing was judged.
        score: the speedup over the reference, with its interval `low` to `high`; None where it was not timed.
        roofline: share of the roofline, the floor of our cost model by the measured time, geometric mean over sizes;
            None where the profile has no floor or nothing was timed.
        report: where the whole report is: a page of the site, or a file.
    """

    verdict: str
    message: str
    diagnosis: str
    judge_s: float = 0.0
    score: float | None = None
    low: float | None = None
    high: float | None = None
    roofline: float | None = None
    report: str | None = None

    @property
    def has_passed(self) -> bool:
        """Whether the judge accepted it."""
        return self.verdict == "PASSED"

    @property
    def is_hack(self) -> bool:
        """Whether it cheats or breaks a written rule."""
        return self.verdict in outcomes.HACKS

    @property
    def builds(self) -> bool:
        """Whether there was a program that could be loaded."""
        return self.verdict not in _NOT_BUILT

    @property
    def runs(self) -> bool:
        """Whether it answered every call, right or wrong, and by the rules."""
        return self.builds and self.verdict not in _NOT_RUN and not self.is_hack


class Judge(Protocol):
    """Where programs are judged. Threads may ask at once.

    Raises:
        NoVerdict: nobody judged it, also after trying again.
    """

    def __call__(self, problem: str, source: str, *, mode: str, sample: int | str = 0) -> Graded:
        """The verdict on a program for a problem in mode check, benchmark or ranked.

        `sample` tells apart samples with the same program, where those count: its number, or a name in this process.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class SiteJudge:
    """A site, by one's own submissions. Their idempotency keys follow from `series` and the program."""

    site: Client
    profile: str
    backend: str = "pytorch"
    series: str = ""

    def __call__(self, problem: str, source: str, *, mode: str, sample: int | str = 0) -> Graded:  # noqa: ARG002
        """Submit and wait; see `Judge`."""
        ended = None
        for number in range(MOST_TRIES):
            key = _digest(self.series, problem, self.profile, self.backend, mode, source, str(number))
            try:
                where = {"profile": self.profile, "backend": self.backend, "mode": mode}
                submission = self.site.submit_text(problem, source, note=self.series[:200], key=key, **where)
                ended = self.site.wait(submission.id)
            except Refused as refused:
                return _refused(refused)
            if ended.evaluation.verdict not in outcomes.RETRIED and ended.evaluation.verdict is not None:
                return _of_submission(ended, self.site.site)
        assert ended is not None
        raise NoVerdict(f"{ended.url}: {ended.evaluation.verdict or ended.evaluation.state}, {MOST_TRIES} times.")


def _refused(refused: Refused) -> Graded:
    """The verdict on a source that the site does not take; raises the refusal where it is about something else."""
    about = [error for error in refused.errors if error.field in {"file", "source"} and refused.status != 409]
    if not about:
        raise NoVerdict(str(refused)) from refused
    verdict = about[0].verdict or "REFUSED"
    return Graded(verdict=verdict, message=about[0].message, diagnosis=f"{verdict}\n{refused}")


def _of_submission(ended: Submission, site: str) -> Graded:
    evaluation = ended.evaluation
    begun, finished = evaluation.started_at, evaluation.finished_at
    return Graded(
        verdict=evaluation.verdict or "",
        message=evaluation.message,
        diagnosis=diagnosis(evaluation),
        judge_s=(finished - begun).total_seconds() if begun and finished else 0.0,
        score=evaluation.score,
        low=evaluation.score_low,
        high=evaluation.score_high,
        roofline=_roofline(evaluation.report),
        report=f"{site}/submissions/{ended.id}/",
    )


@dataclass(frozen=True, kw_only=True)
class RunJudge:
    """A site, by attempts of one of its runs: each sample is one, and counts for the run's model.

    A sample's key follows from problem, program and number, so a harness that is resumed adds nothing twice. Where a
    harness has no numbers, equal programs of one process are numbered as they come. A sample that takes another's
    place, because the model was asked again, is one more.
    """

    site: Client
    run: str
    _numbered: dict[str, list[int | str]] = field(default_factory=dict)
    _places: dict[str, dict[str, int]] = field(default_factory=dict)
    """By problem and key the numbers that this process takes: threads are not to ask for the same one."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, problem: str, source: str, *, mode: str, sample: int | str = 0) -> Graded:
        """Add the attempt and wait; see `Judge`."""
        if mode != "ranked":
            raise UsageError(f"A run counts what is ranked, not mode {mode}: leave mode out, or leave run out.")
        program = _digest(problem, source)
        with self._lock:
            alike = self._numbered.setdefault(program, [])
            if sample not in alike:
                alike.append(sample)
            number = sample if isinstance(sample, int) else alike.index(sample)
        try:
            attempt = self._added(problem, source, key=f"{program[:40]}/{number}", number=number)
        except Refused as refused:
            return _refused(refused)
        if attempt.submission_id is None:
            said = f"{attempt.verdict}\n{attempt.message}"
            return Graded(verdict=attempt.verdict or "", message=attempt.message, diagnosis=said)
        ended = self.site.wait(attempt.submission_id)
        if ended.evaluation.verdict is None:
            raise NoVerdict(f"{ended.url}: {ended.evaluation.state}.")
        return _of_submission(ended, self.site.site)

    def _added(self, problem: str, source: str, *, key: str, number: int) -> Attempt:
        """The attempt of this key, added under the first free number from `number` on where there is none yet."""
        for _ in range(MOST_TRIES):
            there = list(self.site.runs.attempts(self.run, problem=problem))
            known = next((attempt for attempt in there if attempt.key == key), None)
            if known is not None:
                return known
            with self._lock:
                places = self._places.setdefault(problem, {})
                taken = {attempt.sample for attempt in there}
                taken |= {place for other, place in places.items() if other != key}
                free = next(each for each in itertools.count(number) if each not in taken)
                places[key] = free
            new = NewAttempt(problem=problem, sample=free, source=source, key=key)
            try:
                return self.site.runs.add_attempt(self.run, new)
            except Refused as refused:
                if refused.status != HTTPStatus.CONFLICT:
                    raise
                said = refused  # another process took the number, or the run takes no more
        raise said


@dataclass(frozen=True, kw_only=True)
class LocalJudge:
    """The judge of a checkout on this machine; `at_once` programs at a time, each in its sandbox.

    Reports are kept in `reports`. A program that has one there is not judged again.
    """

    checkout: Path
    reports: Path
    profile: str
    backend: str = "pytorch"
    series: str = ""
    is_unsandboxed: bool = False
    at_once: int = 1
    _slots: list[threading.BoundedSemaphore] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._slots.append(threading.BoundedSemaphore(self.at_once))
        python_of(self.checkout)
        self.reports.mkdir(parents=True, exist_ok=True)

    def __call__(self, problem: str, source: str, *, mode: str, sample: int | str = 0) -> Graded:  # noqa: ARG002
        """Judge, or read the report of the same program; see `Judge`."""
        name = _digest(self.series, problem, self.profile, self.backend, mode, source)[:40]
        path = self.reports / f"{problem}-{name}.json"
        with self._slots[0]:
            started = time.monotonic()
            for _ in range(MOST_TRIES):
                content = path.read_bytes() if path.exists() else self._judged(problem, source, mode)
                report = msgspec.json.decode(content, type=Report)
                if report.verdict in outcomes.RETRIED:
                    continue
                draft = path.with_suffix(f".{threading.get_ident()}")
                draft.write_bytes(content)
                draft.replace(path)
                return _of_report(report, path, judge_s=time.monotonic() - started)
        raise NoVerdict(f"The judge in {self.checkout} failed {MOST_TRIES} times: {report.message}")

    def _judged(self, problem: str, source: str, mode: str) -> bytes:
        with tempfile.TemporaryDirectory(prefix="pkb-") as folder:
            path = Path(folder) / ENTRY
            path.write_text(source, encoding="utf-8", errors="replace")
            wishes = ["--profile", self.profile, "--backend", self.backend, "--mode", mode, "--json"]
            wishes += ["--allow-unsandboxed"] if self.is_unsandboxed else []
            command = [python_of(self.checkout), "-m", "evaluator", "run", problem, str(path), *wishes]
            ended = subprocess.run(command, cwd=self.checkout, capture_output=True, check=False)  # noqa: S603 - the user's own judge
        if ended.returncode not in {0, 1} or not ended.stdout:
            raise NoVerdict(
                f"The judge in {self.checkout} said: {ended.stderr.decode(errors='replace').strip()[-2000:]}"
            )
        return ended.stdout


def _of_report(report: Report, path: Path, *, judge_s: float) -> Graded:
    timing = report.timing
    return Graded(
        verdict=report.verdict,
        message=report.message,
        diagnosis=diagnosis_of_report(report),
        judge_s=judge_s,
        score=timing.score if timing else None,
        low=timing.low if timing else None,
        high=timing.high if timing else None,
        roofline=_roofline(report),
        report=path.resolve().as_uri(),
    )


def _roofline(report: Report | None) -> float | None:
    sizes = report.timing.sizes if report and report.timing else []
    shares = [
        size.floor_us / size.candidate.median_us for size in sizes if size.floor_us and size.candidate.median_us > 0
    ]
    return math.exp(math.fsum(map(math.log, shares)) / len(shares)) if shares else None


def judge_of(
    *,
    profile: str,
    backend: str = "pytorch",
    site: str | None = None,
    judge: str | None = None,
    reports: str = "pkb-reports",
    series: str = "",
    unsandboxed: bool = False,
    at_once: int = 1,
    run: str = "",
    say: Callable[[str], None] = lambda _text: None,
) -> Judge:
    """The judge that was chosen: `judge` or PKB_JUDGE names a checkout, else it is the site.

    The token is that of `pkb login` or PKB_TOKEN; it stays in this process. `run` is one of `pkb run create`, whose
    attempts the samples become.

    Raises:
        UsageError: neither is known, the checkout has no judge, or the run is of another profile or backend.
    """
    checkout = judge or (None if site else os.environ.get("PKB_JUDGE"))
    if checkout and run:
        raise UsageError("A run is a site's: leave run out, or judge (PKB_JUDGE).")
    if checkout:
        return LocalJudge(
            checkout=Path(checkout).resolve(),
            reports=Path(reports),
            profile=profile,
            backend=backend,
            series=series,
            is_unsandboxed=unsandboxed,
            at_once=at_once,
        )
    address, token = credentials.site_and_token(site or os.environ.get("PKB_SITE"), os.environ.get("PKB_TOKEN"))
    if token is None:
        raise UsageError(f"There is no token for {address}: call `pkb login`, set PKB_TOKEN, or name a judge.")
    client = Client(address, token=token, patience_s=PATIENCE_S, say=say)
    if run:
        there = client.runs.get(run)
        if (there.profile, there.backend) != (profile, backend):
            raise UsageError(f"The run is {there.backend} on {there.profile}, not {backend} on {profile}.")
        return RunJudge(site=client, run=there.id)
    return SiteJudge(site=client, profile=profile, backend=backend, series=series)


def graded_answer(judge: Judge, problem: str, answer: str, *, mode: str, sample: int | str = 0) -> Graded:
    """The verdict on the program in a model's answer; raises NoVerdict."""
    source = source_in(answer)
    if not source:
        if isinstance(judge, RunJudge):
            judge(problem, "", mode=mode, sample=sample)  # it counts there, and the site needs no judge for it
        message = "The answer has no fenced block of Python that defines solution(...)."
        return Graded(verdict="NO_PROGRAM", message=message, diagnosis=f"NO_PROGRAM\n{message}")
    written = source.encode(errors="replace")
    if len(written) > MOST_SOURCE_BYTES:
        if isinstance(judge, RunJudge):  # as much as shows the site that it is too long
            judge(problem, written[: MOST_SOURCE_BYTES + 4].decode(errors="ignore"), mode=mode, sample=sample)
        message = f"The program has more than {MOST_SOURCE_BYTES // 1024} KB."
        return Graded(verdict="LIMIT_EXCEEDED", message=message, diagnosis=f"LIMIT_EXCEEDED\n{message}")
    graded = judge(problem, source, mode=mode, sample=sample)
    if graded.verdict in outcomes.UNMEASURED:
        raise NoVerdict(f"{graded.verdict}: {graded.message}")
    return graded


async def in_thread(call: Callable[[], _Result]) -> _Result:
    """The result of a call that waits, without holding up the event loop or the end of the process."""
    ended: Future[_Result] = Future()
    ended.set_running_or_notify_cancel()

    def work() -> None:
        try:
            ended.set_result(call())
        except Exception as error:  # noqa: BLE001 - carried to whoever waits
            ended.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return await asyncio.wrap_future(ended)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()
