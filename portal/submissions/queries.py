"""Shared reads of submissions: what authors have, what a live page shows, and what operators look at."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any

import msgspec
from django.db.models import Exists, Min, OuterRef, Prefetch, QuerySet
from django.utils import timezone

from evaluator.contract import Backend, EarlierTry, EvaluationReport, EvaluationRequest, Mode, Stage, Timing, Verdict
from portal.accounts.models import User
from portal.catalog.size_times import SizeTime, size_times
from portal.nodes.models import Node
from portal.nodes.queries import offline_before, online_profiles
from portal.submissions import sweeps
from portal.submissions.models import Evaluation, Flag, Quarantine, Report, State, Submission
from portal.submissions.queue import QueuePosition, position_in_queue, recently_judged

_REASON_LENGTH = 1000
_ALIKE = 7


def own_submissions(user: User, *, problem: str | None = None) -> QuerySet[Submission]:
    """The submissions of `user`, the newest first, each with `evaluations` loaded, the newest first.

    Each carries `is_quarantined`, whether it is in quarantine now. Attempts of runs are left out: their run lists them.
    """
    # A list: of `NOT is_attempt` SQLite makes no use in an index, and it would sort all of them.
    submissions = Submission.objects.filter(author=user, is_attempt__in=[False]).select_related("source")
    if problem is not None:
        submissions = submissions.filter(problem=problem)
    # In the order of the index `newest_of_an_author`: on PostgreSQL a page of 70,000 costs what one of ten does.
    submissions = submissions.order_by("-created_at", "-id")
    submissions = submissions.annotate(is_quarantined=Exists(quarantined().filter(submission=OuterRef("pk"))))
    return submissions.prefetch_related(
        Prefetch("evaluations", Evaluation.objects.select_related("node_owner").order_by("-queued_at"))
    )


def last_submission(user: User, *, problem: str) -> Submission | None:
    """The last submission of `user` to `problem`, attempts of runs left out: its key and its moment alone."""
    found = Submission.objects.filter(author=user, problem=problem, is_attempt=False).order_by("-created_at", "-id")
    return found.only("pk", "created_at").first()


def quarantined() -> QuerySet[Quarantine]:
    return Quarantine.objects.filter(lifted_at=None)


def quarantine_of(submission: Submission) -> Quarantine | None:
    """The quarantine of `submission` that is in force; None where it is in none."""
    return quarantined().filter(submission=submission).first()


def evaluations_of(submission: Submission) -> tuple[Evaluation, ...]:
    """Every evaluation of `submission` with its node, the newest first; at least one, which is stored with it."""
    return tuple(submission.evaluations.select_related("node", "node_owner").order_by("-queued_at"))


def latest_report(evaluation: Evaluation) -> EvaluationReport | None:
    """The report that ended `evaluation`, or that of its last failed try; None before there is one."""
    row = evaluation.reports.order_by("-attempt").first()
    return row.report if row is not None else None


def last_finished(submission: Submission, *, profile: str) -> Evaluation | None:
    """The newest evaluation of `submission` on `profile` that ended with a verdict."""
    return submission.evaluations.filter(profile=profile, state=State.FINISHED).order_by("-queued_at").first()


def time_pairs(old: Evaluation | None, new: Evaluation | None) -> list[tuple[str, float, float, float]]:
    """The sizes that both evaluations measured: before and now in microseconds, and how many times as fast.

    Those of other profiles, revisions or rules do not compare.
    """
    if old is None or new is None or _setting(old) != _setting(new):
        return []
    before, after = _medians(latest_report(old)), _medians(latest_report(new))
    return [(size, before[size], us, before[size] / us) for size, us in after.items() if size in before]


def _setting(evaluation: Evaluation) -> tuple[str, str, int | None, int | None]:
    """Only times of one setting compare."""
    return evaluation.profile, evaluation.problem_revision, evaluation.score_rule, evaluation.node_owner_id


def _medians(report: EvaluationReport | None) -> dict[str, float]:
    if report is None or report.timing is None:
        return {}
    return {size.size: size.candidate.median_us for size in report.timing.sizes}


def times_of(evaluations: Iterable[uuid.UUID]) -> dict[uuid.UUID, tuple[SizeTime, ...]]:
    """The times per size of evaluations that have any, in one query and without the rest of their reports."""
    rows = Report.objects.filter(evaluation__in=list(evaluations)).order_by("attempt")
    timings = dict(rows.values_list("evaluation", "content__timing"))
    return {pk: size_times(msgspec.convert(timing, Timing)) for pk, timing in timings.items() if timing is not None}


def earlier_tries(evaluation: Evaluation) -> tuple[EarlierTry, ...]:
    """The tries of `evaluation` before the current one and why each ended; one without a report lost its node."""
    if evaluation.attempt == 1:
        return ()
    # Without the rest of the reports, which may be hundreds of kilobytes each.
    reports = {
        attempt: EarlierTry(attempt=attempt, verdict=Verdict(verdict), reason=message[:_REASON_LENGTH])
        for attempt, verdict, message in evaluation.reports.values_list(
            "attempt", "content__verdict", "content__message"
        )
    }
    return tuple(
        reports.get(attempt) or EarlierTry(attempt=attempt, reason="its node stopped responding")
        for attempt in range(1, evaluation.attempt)
    )


def request_of(evaluation: Evaluation) -> EvaluationRequest:
    """What a node is asked to judge."""
    submission = evaluation.submission
    return EvaluationRequest(
        evaluation_id=str(evaluation.pk),
        problem=submission.problem,
        revision=evaluation.problem_revision,
        source=submission.source.files,
        backend=Backend(submission.backend),
        profile=evaluation.profile,
        mode=Mode(evaluation.mode),
        sizes=sweeps.points_to_measure(evaluation) or ((evaluation.size,) if evaluation.size else ()),
        attempt=evaluation.attempt,
        earlier=earlier_tries(evaluation),
    )


@dataclass(frozen=True, kw_only=True)
class LiveView:
    """All that a live page or the API shows of one evaluation at one moment.

    `version` changes whenever anything shown may have changed: an entity tag.
    """

    evaluation: Evaluation
    place: QueuePosition | None
    report: EvaluationReport | None
    version: str
    earlier: tuple[EarlierTry, ...] = ()

    @property
    def poll_after_s(self) -> int | None:
        """Seconds after which to look again; None at the end."""
        if self.evaluation.has_ended:
            return None
        return 5 if self.evaluation.state == State.QUEUED else 2

    @property
    def since(self) -> datetime:
        """When the current state or stage began."""
        evaluation = self.evaluation
        return evaluation.finished_at or evaluation.stage_since or evaluation.started_at or evaluation.queued_at


def live_view(evaluation: Evaluation) -> LiveView:
    place = position_in_queue(evaluation)
    parts = (
        evaluation.state,
        evaluation.attempt,
        evaluation.stage,
        evaluation.stage_detail,
        evaluation.stage_fraction,
        evaluation.verdict,
        place,
    )
    return LiveView(
        evaluation=evaluation,
        place=place,
        report=latest_report(evaluation) if evaluation.state == State.FINISHED else None,
        version="-".join(str(part) for part in parts),
        earlier=earlier_tries(evaluation),
    )


def accepted() -> QuerySet[Evaluation]:
    """Every finished PASSED ranked evaluation of open accounts; attempts of runs and quarantines are left out."""
    return (
        Evaluation.objects.filter(
            state=State.FINISHED,
            verdict="PASSED",
            mode=Mode.RANKED.value,
            submission__author__is_active=True,
            submission__is_attempt=False,
        )
        .exclude(submission__in=quarantined().values("submission"))
        .select_related("submission", "submission__author")
    )


def expected_stage_seconds(evaluation: Evaluation) -> dict[Stage, float]:
    """How long each stage took lately for accepted work on the same profile in the same mode; the median of a few."""
    alike = (
        recently_judged(evaluation.profile, evaluation.node_owner_id)
        .filter(mode=evaluation.mode, verdict="PASSED")
        .values_list("pk", flat=True)
    )
    reports = Report.objects.filter(evaluation__in=list(alike[:_ALIKE])).values_list("content__stages", flat=True)
    durations: dict[Stage, list[float]] = {}
    for stages in reports:
        for entry in stages or ():
            durations.setdefault(Stage(entry["stage"]), []).append(float(entry["seconds"]))
    return {stage: median(seconds) for stage, seconds in durations.items()}


def for_operators() -> dict[str, Any]:
    """What may need an operator now: numbers, those of evaluations over a day, and since when work waits for a slot."""
    now = timezone.now()
    lately = now - timedelta(days=1)
    waiting = Evaluation.objects.filter(state=State.QUEUED, node_owner=None, profile__in=online_profiles())
    return {
        "flags": Flag.objects.filter(resolved_at=None).count(),
        "failures": Evaluation.objects.filter(verdict=Verdict.JUDGE_FAILURE, finished_at__gte=lately).count(),
        "alarms": Evaluation.objects.filter(has_alarms=True, queued_at__gte=lately).count(),
        "silent": Node.objects.filter(is_enabled=True, revoked_at=None, seen_at__lt=offline_before(now)).count(),
        "waits_since": waiting.aggregate(since=Min("queued_at"))["since"],
    }
