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
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from . import credentials, outcomes
from .agent import trajectory
from .chat import Answer, Usage, source_in
from .client import Client
from .decoding import read_fields
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


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a program stands in a run.

    Attributes:
        sample: tells apart samples with the same program: its number, or a name in this process.
        earlier: the programs of the sample's earlier steps.
        trajectory: what was asked and answered at this step.
    """

    sample: int | str = 0
    earlier: tuple[str, ...] = ()
    trajectory: str | None = None


_ALONE = Place()


class Judge(Protocol):
    """Where programs are judged. Threads may ask at once.

    Raises:
        NoVerdict: nobody judged it, also after trying again.
    """

    def __call__(self, problem: str, source: str, *, mode: str, place: Place = _ALONE) -> Graded:
        """The verdict on a program for a problem in mode check, benchmark or ranked; `place` is for runs."""
        ...


@dataclass(frozen=True, kw_only=True)
class SiteJudge:
    """A site, by one's own submissions. Their idempotency keys follow from `series` and the program."""

    site: Client
    profile: str
    backend: str = "pytorch"
    series: str = ""

    def __call__(self, problem: str, source: str, *, mode: str, place: Place = _ALONE) -> Graded:  # noqa: ARG002
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
    """A site, by attempts of one of its runs: each sample counts for the run's model by its last program.

    In an agentic run the programs before that one are steps of the sample, else they are `own` submissions. Programs
    that a sample of the run has already, in this order, are found and not added again, so a harness may be resumed.
    Where the model was asked again and wrote something else, an unfinished sample goes on with that, and beside a
    finished one there is one more.
    """

    site: Client
    run: str
    own: Judge
    has_steps: bool
    _numbers: dict[tuple[str, int | str], int] = field(default_factory=dict)
    """By problem and the harness's name of a sample its number in the run: threads are not to take the same one."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, problem: str, source: str, *, mode: str, place: Place = _ALONE) -> Graded:
        """Add the attempt and wait; see `Judge`."""
        if mode != "ranked" and not self.has_steps:
            return self.own(problem, source, mode=mode)
        programs = (*(place.earlier if self.has_steps else ()), source)
        try:
            attempt = self._added(problem, programs, place, mode)
        except Refused as refused:
            return _refused(refused)
        if attempt.submission_id is None:
            said = f"{attempt.verdict}\n{attempt.message}"
            return Graded(verdict=attempt.verdict or "", message=attempt.message, diagnosis=said)
        ended = self.site.wait(attempt.submission_id)
        if ended.evaluation.verdict is None:
            raise NoVerdict(f"{ended.url}: {ended.evaluation.state}.")
        return _of_submission(ended, self.site.site)

    def _added(self, problem: str, programs: Sequence[str], place: Place, mode: str) -> Attempt:
        """The attempt of the last of these programs; in its sample the others are earlier steps."""
        for _ in range(MOST_TRIES):
            there = list(self.site.runs.attempts(self.run, problem=problem))
            known, number, is_new = self._numbered(problem, programs, place.sample, there)
            if known is not None:
                return known
            begin = 0 if is_new else len(programs) - 1
            step = 0 if is_new else 1 + max((each.step for each in there if each.sample == number), default=-1)
            try:
                for last in range(begin, len(programs)):
                    what: dict[str, Any] = {
                        "sample": number,
                        "step": step + last - begin,
                        "source": programs[last],
                        "mode": "check",
                    }
                    if last == len(programs) - 1:
                        what |= {"mode": mode, "trajectory": place.trajectory}
                    key = f"{_digest(problem, *programs[: last + 1])[:40]}/{number}"
                    added = self.site.runs.add_attempt(self.run, NewAttempt(problem=problem, key=key, **what))
            except Refused as refused:
                if refused.status != HTTPStatus.CONFLICT:
                    raise
                said = refused  # another process took the number, or the run takes no more
            else:
                return added
        raise said

    def _numbered(
        self, problem: str, programs: Sequence[str], name: int | str, there: Sequence[Attempt]
    ) -> tuple[Attempt | None, int, bool]:
        """The attempt that there is already, else the number of the sample, and whether that is a new one."""
        ranked = {attempt.sample for attempt in there if attempt.mode == "ranked"}
        same = f"{_digest(problem, *programs)[:40]}/"
        with self._lock:
            number = self._numbers.get((problem, name), name if isinstance(name, int) else None)
            others = {taken for who, taken in self._numbers.items() if who[0] == problem and who[1] != name}
            known = [attempt for attempt in there if attempt.key.startswith(same) and attempt.sample not in others]
            if known:
                mine = {number, name}
                chosen = min(known, key=lambda one: (one.sample not in mine, one.sample in ranked, one.sample))
                self._numbers[problem, name] = chosen.sample
                return chosen, chosen.sample, False
            if number not in ranked | others and any(each.sample == number for each in there):
                assert number is not None
                self._numbers[problem, name] = number
                return None, number, False
            begin = name if isinstance(name, int) else 0
            taken = others | {attempt.sample for attempt in there}
            number = next(each for each in itertools.count(begin) if each not in taken)
            self._numbers[problem, name] = number
            return None, number, True


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

    def __call__(self, problem: str, source: str, *, mode: str, place: Place = _ALONE) -> Graded:  # noqa: ARG002
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


RUN_JUDGES: dict[tuple[str, str], RunJudge] = {}
"""One for each run: a harness's solver and its scorer mean the same samples."""


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
    own = SiteJudge(site=client, profile=profile, backend=backend, series=series)
    if run:
        there = client.runs.get(run)
        if (there.profile, there.backend) != (profile, backend):
            raise UsageError(f"The run is {there.backend} on {there.profile}, not {backend} on {profile}.")
        made = RunJudge(site=client, run=there.id, own=own, has_steps=there.mode == "agentic")
        return RUN_JUDGES.setdefault((address, there.id), made)
    return own


def graded_answer(
    judge: Judge,
    problem: str,
    answer: str,
    *,
    mode: str,
    sample: int | str = 0,
    earlier: Sequence[str] = (),
    asked: str = "",
) -> Graded:
    """The verdict on the program in a model's answer to `asked`, after the `earlier` answers; raises NoVerdict."""
    text = trajectory(asked, Answer(text=answer, finish_reason="", usage=Usage(), seconds=0.0)) if asked else None
    place = Place(sample=sample, earlier=tuple(_sent(source_in(each)) for each in earlier), trajectory=text)
    source = source_in(answer)
    is_long = len(source.encode(errors="replace")) > MOST_SOURCE_BYTES
    if (is_long or not source) and isinstance(judge, RunJudge):
        judge(problem, _sent(source), mode=mode, place=place)  # it counts there, and the site needs no judge for it
    if not source:
        message = "The answer has no fenced block of Python that defines solution(...)."
        return Graded(verdict="NO_PROGRAM", message=message, diagnosis=f"NO_PROGRAM\n{message}")
    if is_long:
        message = f"The program has more than {MOST_SOURCE_BYTES // 1024} KB."
        return Graded(verdict="LIMIT_EXCEEDED", message=message, diagnosis=f"LIMIT_EXCEEDED\n{message}")
    graded = judge(problem, source, mode=mode, place=place)
    if graded.verdict in outcomes.UNMEASURED:
        raise NoVerdict(f"{graded.verdict}: {graded.message}")
    return graded


def _sent(source: str) -> str:
    """What goes to a site of a program: no more than shows that it is too long."""
    return source.encode(errors="replace")[: MOST_SOURCE_BYTES + 4].decode(errors="ignore")


async def in_thread(call: Callable[[], _Result]) -> _Result:
    """The result of a call that waits, without holding up the event loop or the end of the process."""
    ended: Future[_Result] = Future()
    ended.set_running_or_notify_cancel()

    def work() -> None:
        try:
            ended.set_result(call())
        except Exception as error:  # noqa: BLE001 - carried to whoever waits
            ended.set_exception(error)

    read_fields()
    threading.Thread(target=work, daemon=True).start()
    return await asyncio.wrap_future(ended)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()
