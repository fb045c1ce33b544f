"""Adding attempts to a run: one, or as many as an upload brings, stored in batches."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from evaluator.contract import Backend, Mode, Verdict
from evaluator.hardware import profiles
from evaluator.judging.source_rules import check_source
from evaluator.judging.verdicts import decide_before_ranks
from portal.accounts.models import User
from portal.catalog import queries as catalog
from portal.catalog.models import ProblemSwitch
from portal.core.errors import Conflict, Refusal, differences
from portal.runs import queries
from portal.runs.models import Attempt, AttemptState, EventKind, Run, RunEvent, Trajectory, record
from portal.runs.uploads import Line, NewAttempt
from portal.submissions import actions as submissions
from portal.submissions import queue, quotas
from portal.submissions.models import Evaluation, Submission
from problems import registry

BATCH = 50
"""Attempts stored in one transaction: an interrupted upload leaves a whole number of these batches."""

MAX_ATTEMPTS = 100_000
"""Attempts of one run: all problems with the largest k. A run's page and figures are worked out from all of them."""

_COPIED = (
    "key", "problem", "sample", "step", "mode", "source_digest", "tokens_in", "tokens_out", "cost_usd", "seconds",
)  # fmt: skip
"""What an attempt is stored with as it came."""

_Fault = tuple[Verdict, str]


@dataclass(frozen=True, kw_only=True)
class LineResult:
    """What became of one line; `status` is created, repeated, refused or over_quota."""

    line: int
    key: str
    status: str
    attempt: Attempt | None = None
    refusal: Refusal | None = None


@dataclass(frozen=True, kw_only=True)
class BulkResult:
    """What became of an upload. `retry_after_s` says when lines over quota may be sent again."""

    results: tuple[LineResult, ...]
    retry_after_s: int | None = None

    @property
    def counts(self) -> Counter[str]:
        return Counter(result.status for result in self.results)


def add_attempt(run: Run, attempt: NewAttempt, *, by: User) -> LineResult:
    """Add one attempt; the same key with the same source gives the attempt that is there.

    Raises:
        Refusal: the run is not theirs (403) or published (409). The problem is unknown or closed. The key, or the
            problem, sample and step, have another source (409). The quota is used up (429).
    """
    result = add_lines(run, [Line(number=1, key=attempt.key, attempt=attempt)], by=by, priority=0).results[0]
    if result.refusal is not None:
        raise result.refusal
    return result


def add_lines(run: Run, lines: Iterable[Line], *, by: User, priority: int = queue.BULK_PRIORITY) -> BulkResult:
    """Add what an upload brings, batch by batch as it is read; one result per line, in order.

    Raises:
        Refusal: the run is not theirs (403) or published (409), or not one line fits into the quota (429).
    """
    queries.require_change(by, run)
    results: list[LineResult] = []
    remaining = iter(lines)
    while batch := list(islice(remaining, BATCH)):
        results += _add_batch(run, batch, by=by, priority=priority)
    over = [result for result in results if result.status == "over_quota" and result.refusal is not None]
    if over and len(over) == len(results):
        assert over[0].refusal is not None
        raise over[0].refusal
    waits = [result.refusal.retry_after_s for result in over if result.refusal is not None]
    return BulkResult(results=tuple(results), retry_after_s=waits[0] if waits else None)


def _add_batch(run: Run, batch: Sequence[Line], *, by: User, priority: int) -> list[LineResult]:
    # What the text decides is found before the lock is taken, and only for what is new: parsing is what takes the time.
    keys = [line.attempt.key for line in batch if line.attempt is not None]
    known = {problem.slug for problem in registry.problems()}
    held = set(run.attempts.filter(key__in=keys).values_list("key", "source_digest"))
    faults = {
        line.number: _fault(run, line.attempt)
        for line in batch
        if line.attempt and (line.attempt.key, line.attempt.source_digest) not in held and line.attempt.problem in known
    }
    closed = set(ProblemSwitch.objects.filter(is_open=False).values_list("slug", flat=True))
    with transaction.atomic():
        payer = quotas.lock_organisation(run.model.organisation_id)
        if Run.objects.select_for_update().get(pk=run.pk).is_published:
            message = "The run is published, so nothing can be added to it."
            raise Conflict("run", run.pk, message, "Create a new run.")
        room = MAX_ATTEMPTS - run.attempts.count()
        now = timezone.now()
        limit = None if all(faults.values()) else quotas.tightest_limit(payer, run.profile, now=now)
        sorter = _Sorter(run, batch, closed=closed, limit=limit, room=room)
        decided = [sorter.decide(line, faults.get(line.number)) for line in batch]
        fresh = [
            (line.number, line.attempt, faults[line.number])
            for line, result in zip(batch, decided, strict=True)
            if result is None and line.attempt is not None
        ]
        stored = _store(run, fresh, by=by, priority=priority, payer=payer)
    decided = [
        replace(result, attempt=stored[sorter.repeats[result.line]])
        if result and result.line in sorter.repeats
        else result
        for result in decided
    ]
    return [
        result or LineResult(line=line.number, key=line.key, status="created", attempt=stored[line.number])
        for line, result in zip(batch, decided, strict=True)
    ]


def _fault(run: Run, attempt: NewAttempt) -> _Fault | None:
    """The verdict that the text of an attempt decides, or None where a judge has to look."""
    if attempt.files is None or attempt.fault is not None:
        return attempt.fault
    findings = check_source(
        catalog.get_problem(attempt.problem),
        attempt.files,
        backend=Backend(attempt.backend or run.backend),
        profile=profiles.get(run.profile),
        mode=Mode(attempt.mode),
    )
    found = decide_before_ranks(findings)
    return (found.verdict, found.message) if found is not None else None


class _Sorter:
    """Classifies the lines of a batch: refused, repeated, over quota, or fresh."""

    def __init__(
        self, run: Run, batch: Sequence[Line], *, closed: set[str], limit: quotas.Limit | None, room: int
    ) -> None:
        attempts = [line.attempt for line in batch if line.attempt is not None]
        keys = {attempt.key for attempt in attempts}
        existing = run.attempts.filter(Q(key__in=keys) | Q(problem__in={attempt.problem for attempt in attempts}))
        self.by_key = {attempt.key: attempt for attempt in existing}
        self.by_place = {(attempt.problem, attempt.sample, attempt.step): attempt for attempt in existing}
        self.in_batch: dict[object, Line] = {}
        self.repeats: dict[int, int] = {}
        """The number of the line of this batch that a repeated one repeats."""
        self.asked_backend = run.backend
        self.closed = closed
        self.profile = run.profile
        self.limit = limit
        self.fitting = limit.judgements(quotas.reservation_gpu_s(run.profile)) if limit is not None else None
        self.left = self.fitting
        self.room = room

    def decide(self, line: Line, fault: _Fault | None) -> LineResult | None:
        """The result of a line that adds nothing; None for a fresh attempt."""
        attempt = line.attempt
        if attempt is None:
            return LineResult(line=line.number, key=line.key, status="refused", refusal=line.refusal)
        place = (attempt.problem, attempt.sample, attempt.step)
        held = self.by_key.get(attempt.key) or self.by_place.get(place)
        if held is not None:
            where = f"The run has a different attempt here, {held.key} ({held}, {held.mode})"
            return self._repeated(line, self._what(held), where, held)
        earlier = self.in_batch.get(attempt.key) or self.in_batch.get(place)
        if earlier is not None and earlier.attempt is not None:
            self.repeats[line.number] = earlier.number
            where = f"Line {earlier.number} of this upload has a different attempt here"
            return self._repeated(line, self._what(earlier.attempt), where, None)
        try:
            self._check_fresh(attempt)
        except Refusal as refusal:
            return LineResult(line=line.number, key=line.key, status="refused", refusal=refusal)
        if fault is None and self.limit is not None and self.left is not None:
            if self.left == 0:
                over = quotas.refusal(self.limit, self.profile, now=timezone.now(), after=self.fitting or 0)
                return LineResult(line=line.number, key=line.key, status="over_quota", refusal=over)
            self.left -= 1
        self.room -= 1
        self.in_batch |= {attempt.key: line, place: line}
        return None

    def _what(self, attempt: NewAttempt | Attempt) -> dict[str, Any]:
        names = ("key", "problem", "sample", "step", "mode")
        fixed = {"backend": attempt.backend or self.asked_backend, "source": attempt.source_digest}
        return {name: getattr(attempt, name) for name in names} | fixed

    def _repeated(self, line: Line, held: dict[str, Any], where: str, stored: Attempt | None) -> LineResult:
        """A line where there is something already: the same, or refused; `stored` is its row, if it has one."""
        assert line.attempt is not None
        found = differences(self._what(line.attempt), held)
        if not found:
            return LineResult(line=line.number, key=line.key, status="repeated", attempt=stored)
        self.repeats.pop(line.number, None)
        refusal = Conflict(
            "key",
            line.key,
            f"{where}: {'; '.join(found)}.",
            "A run is append-only: use another key with another sample or step, or create a new run.",
        )
        return LineResult(line=line.number, key=line.key, status="refused", refusal=refusal)

    def _check_fresh(self, attempt: NewAttempt) -> None:
        catalog.get_problem(attempt.problem)
        if self.room <= 0:
            message = f"The run has {MAX_ATTEMPTS} attempts, which is the limit."
            raise Conflict("run", attempt.key, message, "Add further attempts to another run of the same model.")
        if attempt.problem in self.closed:
            message = "This problem is closed: it accepts no submissions now."
            raise Conflict("problem", attempt.problem, message, "Leave out this problem.")


_Fresh = tuple[int, NewAttempt, _Fault | None]
"""An attempt that a batch adds: the number of its line, what came, and the fault that its text alone shows, if any."""


def _store(run: Run, fresh: Sequence[_Fresh], *, by: User, priority: int, payer: quotas.Payer) -> dict[int, Attempt]:
    """Store fresh attempts with all that belongs to them; the rows by line number."""
    now = timezone.now()
    evaluations = _submit(run, fresh, by=by, priority=priority, payer=payer)
    stored = Attempt.objects.bulk_create(_row(run, new, evaluations.get(new[0]), now=now) for new in fresh)
    Trajectory.objects.bulk_create(
        Trajectory(attempt=row, text=attempt.trajectory)
        for row, (_, attempt, _) in zip(stored, fresh, strict=True)
        if attempt.trajectory
    )
    ended = [row for row in stored if row.state == AttemptState.ENDED]
    told = ({"attempt": row, "verdict": row.verdict, "message": row.message} for row in ended)
    record(run, [RunEvent(run=run, kind=EventKind.ATTEMPT_ENDED, **columns) for columns in told])
    return {number: row for (number, _, _), row in zip(fresh, stored, strict=True)}


def _submit(
    run: Run, fresh: Sequence[_Fresh], *, by: User, priority: int, payer: quotas.Payer
) -> dict[int, Evaluation]:
    """Queue what a judge has to look at, and store the sources of all; the evaluations by line number."""
    sources = submissions.store_sources(attempt.files for _, attempt, _ in fresh if attempt.files is not None)
    wanted = {
        number: (
            Submission(
                author=by,
                problem=attempt.problem,
                source=sources[attempt.files.digest],
                backend=attempt.backend or run.backend,
                is_attempt=True,
            ),
            attempt.mode,
        )
        for number, attempt, fault in fresh
        if fault is None and attempt.files is not None
    }
    made = submissions.submit_attempts([*wanted.values()], profile=run.profile, priority=priority, payer=payer)
    return dict(zip(wanted, made, strict=True))


def _row(run: Run, new: _Fresh, evaluation: Evaluation | None, *, now: datetime) -> Attempt:
    _, attempt, fault = new
    return Attempt(
        run=run,
        backend=attempt.backend or run.backend,
        submission=evaluation.submission if evaluation else None,
        evaluation=evaluation,
        has_trajectory=bool(attempt.trajectory),
        created_at=now,
        **{name: getattr(attempt, name) for name in _COPIED},
        **_outcome(fault, now=now),
    )


def _outcome(fault: _Fault | None, *, now: datetime) -> dict[str, Any]:
    """What is known of an attempt when it is stored: all of it where its text alone decided."""
    if fault is None:
        return {"state": AttemptState.PENDING}
    verdict, message = fault
    return {"state": AttemptState.ENDED, "verdict": verdict.value, "message": message, "ended_at": now}
