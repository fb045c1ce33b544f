"""Shared reads of submissions: who may see what, the order of the queue, and what a live page shows."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any

from django.conf import settings
from django.db.models import (
    CharField,
    Count,
    DateTimeField,
    Exists,
    Expression,
    F,
    IntegerField,
    OuterRef,
    Prefetch,
    Q,
    QuerySet,
    Subquery,
    UUIDField,
    Value,
)
from django.urls import reverse

from evaluator.contract import Backend, EarlierTry, EvaluationReport, Mode, SourceBundle, Stage, Verdict
from portal.accounts.models import User
from portal.accounts.queries import Viewer
from portal.catalog.queries import paused_problems, paused_slugs
from portal.core.errors import Refusal
from portal.core.kept_statements import Given, KeptStatement
from portal.nodes.models import Node
from portal.nodes.queries import count_online_slots
from portal.submissions.models import (
    Evaluation,
    Flag,
    ProfileSwitch,
    Quarantine,
    Report,
    State,
    Submission,
    Visibility,
)

IN_PROGRESS = (State.LEASED, State.RUNNING)
"""The states in which an evaluation occupies a slot."""

HELD = (*IN_PROGRESS, State.BUILDING)
"""The states in which a node has it under a lease."""

WAITING = (State.QUEUED, State.BUILDING, State.BUILT)
"""The states in which an evaluation waits for a slot."""

_RECENT = 20
_REASON_LENGTH = 1000
_ALIKE = 7


def visible_submissions(viewer: Viewer) -> QuerySet[Submission]:
    """The submissions whose page `viewer` may open: own ones, their organisations' attempts, public ones; staff all."""
    submissions = Submission.objects.select_related("author", "source")
    if not isinstance(viewer, User):
        return submissions.filter(visibility=Visibility.PUBLIC)
    if viewer.is_staff:
        return submissions
    theirs = Q(attempt__run__model__organisation__in=viewer.organisations.values("pk"))
    return submissions.filter(Q(visibility=Visibility.PUBLIC) | Q(author=viewer) | theirs)


def get_submission(viewer: Viewer, submission_id: uuid.UUID | str) -> Submission:
    """The submission with this id, if `viewer` may see it.

    Raises:
        Refusal: there is none, or it is not theirs to see (404 in both cases, so that ids cannot be probed).
    """
    try:
        key = submission_id if isinstance(submission_id, uuid.UUID) else uuid.UUID(submission_id)
    except ValueError:
        raise _not_found(str(submission_id)) from None
    submission = Submission.objects.select_related("author", "source").filter(pk=key).first()
    if submission is None or not _may_open(viewer, submission):
        raise _not_found(str(submission_id))
    return submission


def _may_open(viewer: Viewer, submission: Submission) -> bool:
    """As `visible_submissions` says, of a submission in hand: for most, nothing more is asked of the database."""
    if submission.visibility == Visibility.PUBLIC:
        return True
    if not isinstance(viewer, User):
        return False
    if viewer.is_staff or submission.author_id == viewer.pk:
        return True
    return submission.is_attempt and _attempts_of_own_organisations(viewer).filter(pk=submission.pk).exists()


def submissions_of(author_id: int, viewer: Viewer) -> QuerySet[Submission]:
    """The submissions of one author, attempts of runs included, whose page `viewer` may open."""
    is_author = isinstance(viewer, User) and viewer.pk == author_id
    found = Submission.objects.select_related("author", "source") if is_author else visible_submissions(viewer)
    return found.filter(author=author_id)


def own_submissions(user: User, *, problem: str | None = None) -> QuerySet[Submission]:
    """The submissions of `user`, the newest first, each with `evaluations` loaded, the newest first.

    Each carries `is_quarantined`, whether it is in quarantine now. Attempts of runs are left out: their run lists them.
    """
    submissions = Submission.objects.filter(author=user, is_attempt=False).select_related("source")
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
    found = _LAST_SUBMISSION.row(author=user.pk, problem=problem)
    return None if found is None else Submission(pk=found[0], created_at=found[1])


_LAST_SUBMISSION = KeptStatement(
    lambda: (
        Submission.objects.filter(
            author=Given("author", IntegerField()), problem=Given("problem", CharField()), is_attempt=False
        )
        .order_by("-created_at", "-id")
        .values_list("pk", "created_at")[:1]
    )
)


def quarantined() -> QuerySet[Quarantine]:
    """The quarantines that are in force."""
    return Quarantine.objects.filter(lifted_at=None)


def quarantine_of(submission: Submission) -> Quarantine | None:
    """The quarantine of `submission` that is in force; None where it is in none."""
    # Few submissions ever were in one: whether this one is costs no more than an index's page.
    is_in_one = _IS_QUARANTINED.row(submission=submission.pk) is not None
    return quarantined().filter(submission=submission).first() if is_in_one else None


_IS_QUARANTINED = KeptStatement(
    lambda: quarantined().filter(submission=Given("submission", UUIDField())).order_by().values_list("pk")
)


def get_flaggable(viewer: User, submission_id: uuid.UUID) -> Submission:
    """The submission with this id, if `viewer` may flag it: their page is open to them, or it counts on a board.

    Raises:
        Refusal: as `get_submission` does.
    """
    if accepted().filter(submission=submission_id).exists():
        return Submission.objects.select_related("author", "source").get(pk=submission_id)
    return get_submission(viewer, submission_id)


def may_flag(viewer: Viewer, submission: Submission) -> bool:
    """Whether `viewer` may flag `submission` for the operators."""
    return isinstance(viewer, User) and viewer.pk != submission.author_id


def last_flag(viewer: Viewer, submission: Submission) -> Flag | None:
    """The last flag of `viewer` on `submission`, resolved or not."""
    return submission.flags.filter(by=viewer).first() if isinstance(viewer, User) else None


def may_read_source(viewer: Viewer, submission: Submission) -> bool:
    """Whether `viewer` may read the files of `submission`: nobody where this site does not keep them."""
    if submission.published_by:
        return False
    if submission.visibility == Visibility.PUBLIC:
        return True
    if not isinstance(viewer, User):
        return False
    if viewer.is_staff or viewer.pk == submission.author_id:
        return True
    # A colleague of the author of an attempt: a viewer who sees it while private belongs to its organisation.
    return submission.is_attempt and _attempts_of_own_organisations(viewer).filter(pk=submission.pk).exists()


def readable_source(viewer: Viewer, submission: Submission) -> SourceBundle | None:
    """The files of `submission`, or None where `viewer` may not read them."""
    return submission.source.files if may_read_source(viewer, submission) else None


def may_change(viewer: Viewer, submission: Submission) -> bool:
    """Whether `viewer` may cancel, rejudge or publish `submission`."""
    if not isinstance(viewer, User):
        return False
    if viewer.is_staff or viewer.pk != submission.author_id:
        return viewer.is_staff
    # An attempt is its run's: who has left the organisation reads on what they wrote, and ends nothing there.
    return not submission.is_attempt or _attempts_of_own_organisations(viewer).filter(pk=submission.pk).exists()


def _attempts_of_own_organisations(user: User) -> QuerySet[Submission]:
    return Submission.objects.filter(attempt__run__model__organisation__in=user.organisations.values("pk"))


def latest_evaluation(submission: Submission) -> Evaluation | None:
    """The newest evaluation of `submission`."""
    return submission.evaluations.select_related("node", "node_owner").order_by("-queued_at").first()


def evaluations_of(submission: Submission) -> tuple[Evaluation, ...]:
    """Every evaluation of `submission` with its node, the newest first; at least one, which is stored with it."""
    return tuple(submission.evaluations.select_related("node", "node_owner").order_by("-queued_at"))


def get_evaluation(viewer: Viewer, evaluation_id: uuid.UUID | str) -> Evaluation:
    """The evaluation with this id, if `viewer` may see its submission; raises Refusal (404)."""
    try:
        key = evaluation_id if isinstance(evaluation_id, uuid.UUID) else uuid.UUID(evaluation_id)
    except ValueError:
        raise _not_found(str(evaluation_id)) from None
    evaluation = Evaluation.objects.select_related("submission", "node", "node_owner").filter(pk=key).first()
    if evaluation is None or not visible_submissions(viewer).filter(pk=evaluation.submission_id).exists():
        raise _not_found(str(evaluation_id))
    return evaluation


def latest_report(evaluation: Evaluation) -> EvaluationReport | None:
    """The report that ended `evaluation`, or that of its last failed try; None before there is one."""
    row = evaluation.reports.order_by("-attempt").first()
    return row.report if row is not None else None


def holder_of(evaluation_id: str, lease: str) -> Node | None:
    """The node whose lease on an evaluation is `lease`."""
    try:
        key = uuid.UUID(evaluation_id)
    except ValueError:
        return None
    held = Evaluation.objects.filter(pk=key, lease=lease, state__in=HELD).select_related("node").first()
    return held.node if held is not None else None


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


def queue_order(profile: str, *, owner_id: int | None = None) -> QuerySet[Evaluation]:
    """What waits for a slot of `profile` of the site's own nodes or of a guest's, in the order of being taken.

    Priority decides first; then the payers' turns (`portal.submissions.turns`); then the time of queueing. Paused
    problems are left out.
    """
    return _waiting(profile, owner_id).order_by("-priority", "turn", "queued_at", "id")


def build_order(profile: str, *, owner_id: int | None = None) -> QuerySet[Evaluation]:
    """What waits to be compiled ahead for `profile`, in the order in which slots will take it."""
    waiting = queue_order(profile, owner_id=owner_id).filter(state=State.QUEUED)
    return waiting.exclude(submission__backend=Backend.PYTORCH.value)


def _waiting(profile: str | Expression, owner_id: int | Expression | None) -> QuerySet[Evaluation]:
    waiting = _waiting_or_paused(profile, owner_id).exclude(submission__problem__in=paused_slugs())
    return waiting.exclude(profile__in=ProfileSwitch.objects.filter(is_paused=True).values("profile"))


def _waiting_or_paused(profile: str | Expression, owner_id: int | Expression | None) -> QuerySet[Evaluation]:
    return Evaluation.objects.filter(profile=profile, node_owner=owner_id, state__in=WAITING)


def paused_profiles() -> dict[str, str]:
    """The profiles whose queue an operator has paused (work is taken and waits), each with the operator's reason."""
    return {profile: note.strip() for profile, note in _PAUSED_PROFILES.rows()}


_PAUSED_PROFILES = KeptStatement(lambda: ProfileSwitch.objects.filter(is_paused=True).values_list("profile", "note"))


@dataclass(frozen=True, kw_only=True)
class QueuePosition:
    """The position of a queued evaluation: how many are ahead, how many wait in all, and the expected wait.

    `expected_wait_s` is None where no slot is online, none can judge it or nothing was judged on the profile yet.
    `unable_since` is the time since which no online node can judge it, None where one can. `pause_reason` is what the
    operator says of a pause, which may be nothing.
    """

    ahead: int
    total: int
    expected_wait_s: float | None
    is_paused: bool
    has_node: bool
    unable_since: datetime | None = None
    pause_reason: str = ""


def position_in_queue(evaluation: Evaluation) -> QueuePosition | None:
    """The queue position of an evaluation that waits for a slot; None once it has one."""
    if evaluation.state not in WAITING:
        return None
    # What is paused has a note, which may be empty.
    notes = {(what, name): note for what, name, note in _PAUSES.rows(profile=evaluation.profile)}
    problem = notes.get((_PROBLEM, evaluation.submission.problem))
    queue = notes.get((_QUEUE, evaluation.profile))
    is_paused = problem is not None or queue is not None
    # Nothing of a paused queue is next.
    has_paused = any(what == _PROBLEM for what, _ in notes)
    total, before = _counts(evaluation, has_paused=has_paused) if queue is None else (0, 0)
    ahead = total if is_paused else before
    slots = count_online_slots(profile=evaluation.profile, owner_id=evaluation.node_owner_id)
    will_not_move = is_paused or evaluation.unable_since is not None
    return QueuePosition(
        ahead=ahead,
        total=total,
        expected_wait_s=None if will_not_move else _expected_wait_s(evaluation, ahead=ahead, slots=slots),
        is_paused=is_paused,
        has_node=slots > 0,
        unable_since=evaluation.unable_since,
        pause_reason=" ".join(note.strip() for note in (problem, queue) if note and note.strip()),
    )


class _QueueStatement:
    """A kept statement about the queue of an evaluation, which is its profile's at the site's nodes or a guest's."""

    def __init__(self, query: Callable[[Expression, Expression | None], QuerySet[Evaluation, Any]]) -> None:
        profile, owner = Given("profile", CharField()), Given("owner", IntegerField())
        self._of_the_site = KeptStatement(lambda: query(profile, None))
        self._of_guests = KeptStatement(lambda: query(profile, owner))

    def rows(self, evaluation: Evaluation, **values: Any) -> list[Any]:
        """The rows of the queue of `evaluation`."""
        statement = self._of_the_site if evaluation.node_owner_id is None else self._of_guests
        return statement.rows(profile=evaluation.profile, owner=evaluation.node_owner_id, **values)


def _counts(evaluation: Evaluation, *, has_paused: bool) -> tuple[int, int]:
    """How many wait in the queue of `evaluation`, and how many of them go before it."""
    # Problems are seldom paused, and to count without them reads the submission of everything that waits.
    statement = _COUNTED_WITHOUT_PAUSED if has_paused else _COUNTED
    values = {name: getattr(evaluation, name) for name in ("priority", "turn", "queued_at", "id")}
    return next(((total, ahead) for _, total, ahead in statement.rows(evaluation, **values)), (0, 0))


def _counted(waiting: QuerySet[Evaluation]) -> QuerySet[Evaluation, Any]:
    counts = {"total": Count("pk"), "ahead": Count("pk", filter=_goes_before())}
    return waiting.order_by().values_list("profile").annotate(**counts)


_PROBLEM, _QUEUE = "problem", "queue"


def _pauses() -> QuerySet[Any, Any]:
    """What is paused: every such problem, and the queue of a profile; which of them, its name, the operator's note."""
    queue = ProfileSwitch.objects.filter(is_paused=True, profile=Given("profile", CharField()))
    return (
        paused_problems()
        .annotate(what=Value(_PROBLEM))
        .values_list("what", "slug", "note")
        .union(queue.annotate(what=Value(_QUEUE)).values_list("what", "profile", "note"), all=True)
    )


_PAUSES = KeptStatement(_pauses)
# The database counts, and once: a run puts hundreds of evaluations into the queue, and everybody in it asks.
_COUNTED = _QueueStatement(lambda profile, owner: _counted(_waiting_or_paused(profile, owner)))
_COUNTED_WITHOUT_PAUSED = _QueueStatement(lambda profile, owner: _counted(_waiting(profile, owner)))


def _goes_before() -> Q:
    """What `queue_order` puts before an evaluation of this priority, turn, time and id."""
    queued_at, turn, priority = (
        Given("queued_at", DateTimeField()),
        Given("turn", IntegerField()),
        Given("priority", IntegerField()),
    )
    earlier = Q(queued_at__lt=queued_at) | Q(queued_at=queued_at, pk__lt=Given("id", UUIDField()))
    before = Q(turn__lt=turn) | (Q(turn=turn) & earlier)
    return Q(priority__gt=priority) | (Q(priority=priority) & before)


@dataclass(frozen=True, kw_only=True)
class LiveView:
    """All that a live page or the API shows of one evaluation at one moment.

    `version` changes whenever anything shown may have changed: an entity tag. `poll_after_s` is None at the end.
    """

    evaluation: Evaluation
    place: QueuePosition | None
    report: EvaluationReport | None
    version: str
    poll_after_s: int | None
    can_cancel: bool
    earlier: tuple[EarlierTry, ...] = ()

    @property
    def since(self) -> datetime:
        """When the current state or stage began."""
        evaluation = self.evaluation
        return evaluation.finished_at or evaluation.stage_since or evaluation.started_at or evaluation.queued_at


def live_view(evaluation: Evaluation) -> LiveView:
    """What to show of `evaluation` now."""
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
        poll_after_s=_poll_after_s(evaluation.state),
        can_cancel=not evaluation.has_ended,
        earlier=earlier_tries(evaluation),
    )


def accepted(mode: Mode = Mode.RANKED) -> QuerySet[Evaluation]:
    """Every finished PASSED evaluation in `mode` of open accounts; attempts of runs and quarantines are left out."""
    return (
        Evaluation.objects.filter(
            state=State.FINISHED,
            verdict="PASSED",
            mode=mode.value,
            submission__author__is_active=True,
            submission__is_attempt=False,
        )
        .exclude(submission__in=quarantined().values("submission"))
        .select_related("submission", "submission__author")
    )


REJUDGED_AMONG = 2_000
"""How many finished evaluations, those queued last, are compared with earlier ones."""


def rejudged_pairs() -> QuerySet[Evaluation]:
    """Finished evaluations before which the same submission was judged in the same mode on the same profile.

    Only `REJUDGED_AMONG` are looked at: where nobody has judged again, a million would be searched in vain.
    Each carries `old_verdict`, `old_score`, `old_revision` of the one before; the newest first.
    """
    earlier = (
        Evaluation.objects.filter(
            submission=OuterRef("submission"),
            profile=OuterRef("profile"),
            mode=OuterRef("mode"),
            state=State.FINISHED,
            queued_at__lt=OuterRef("queued_at"),
        )
        .order_by("-queued_at")
        .values("verdict", "score", "problem_revision")
    )
    newest = Evaluation.objects.filter(state=State.FINISHED).order_by("-queued_at").values("pk")[:REJUDGED_AMONG]
    return (
        Evaluation.objects.filter(pk__in=newest)
        .annotate(
            old_verdict=Subquery(earlier.values("verdict")[:1]),
            old_score=Subquery(earlier.values("score")[:1]),
            old_revision=Subquery(earlier.values("problem_revision")[:1]),
        )
        .exclude(old_verdict=None)
        .select_related("submission")
        .order_by("-finished_at")
    )


def _poll_after_s(state: str) -> int | None:
    if state in State.ended():
        return None
    return 5 if state == State.QUEUED else 2


def _recent(profile: str | Expression, owner_id: int | Expression | None) -> QuerySet[Evaluation]:
    """The evaluations of `profile` that finished lately in a slot of one owner's nodes; None for the site's.

    In the order of the queue's index: there may be millions. What a compiler ended was in none: it begins and ends at
    one moment.
    """
    finished = Evaluation.objects.filter(profile=profile, node_owner=owner_id, state=State.FINISHED)
    finished = finished.exclude(started_at=None)
    finished = finished.exclude(started_at=F("finished_at"))
    return finished.order_by("priority", "-queued_at")


def _expected_wait_s(evaluation: Evaluation, *, ahead: int, slots: int) -> float | None:
    if not slots:
        return None
    times = _RECENT_TIMES.rows(evaluation)
    durations: list[float] = [(end - start).total_seconds() for start, end in times if end is not None]
    if not durations:
        return None
    running: int = next((number for _, number in _RUNNING.rows(evaluation)), 0)
    return median(durations) * (ahead + running) / slots


_RECENT_TIMES = _QueueStatement(
    lambda profile, owner: _recent(profile, owner).values_list("started_at", "finished_at")[:_RECENT]
)
_RUNNING = _QueueStatement(
    lambda profile, owner: (
        Evaluation.objects.filter(profile=profile, node_owner=owner, state__in=IN_PROGRESS)
        .order_by()
        .values_list("profile")
        .annotate(running=Count("pk"))
    )
)


def expected_stage_seconds(evaluation: Evaluation) -> dict[Stage, float]:
    """How long each stage took lately for accepted work on the same profile in the same mode; the median of a few."""
    alike = (
        _recent(evaluation.profile, evaluation.node_owner_id)
        .filter(mode=evaluation.mode, verdict="PASSED")
        .values_list("pk", flat=True)
    )
    reports = Report.objects.filter(evaluation__in=list(alike[:_ALIKE])).values_list("content__stages", flat=True)
    taken: dict[Stage, list[float]] = {}
    for stages in reports:
        for entry in stages or ():
            taken.setdefault(Stage(entry["stage"]), []).append(float(entry["seconds"]))
    return {stage: median(seconds) for stage, seconds in taken.items()}


def _not_found(value: str) -> Refusal:
    return Refusal(
        field="id",
        value=value,
        message="There is no such submission, or it is not public.",
        remedy=f"Check the address. Your own submissions are at {settings.SITE_URL}{reverse('submissions:mine')} "
        "when you are signed in.",
        status=404,
    )
