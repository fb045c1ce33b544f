"""What happens becomes rows for the endpoints that receive it, inside the transaction in which it happens.

Nothing is sent here: a few rows are written, and only for organisations and people who have an endpoint for them.
"""

from collections.abc import Iterable

from django.urls import reverse

from evaluator.contract import SCORE_RULE, Verdict
from evaluator.hardware import profiles
from evaluator.judging.verdicts import FACTS
from portal.core import speedups
from portal.deliveries.models import Delivery, Endpoint, Notice, NoticeKind
from portal.ranking.hooks import StandingRaised, standing_raised
from portal.ranking.models import Standing, board_order
from portal.runs.models import EventsWritten, events_written
from portal.submissions.hooks import evaluation_ended, quarantine_changed
from portal.submissions.models import Evaluation, Quarantine, State
from problems import registry

FIRST_PLACES = 10
"""An author gets a notice of being passed within these first places; below, boards change all the time."""


@events_written.receiver
def queue_events(written: EventsWritten) -> None:
    """Queue the events of a run for the webhooks of its organisation that asked for them."""
    webhooks = Endpoint.objects.filter(organisation=written.run.model.organisation_id, removed_at=None)
    Delivery.objects.bulk_create(
        Delivery(endpoint=webhook, event=event)
        for webhook in webhooks
        for event in written.events
        if event.kind in webhook.kinds
    )


@evaluation_ended.receiver
def note_verdict(evaluation: Evaluation) -> None:
    """Note a verdict, or that no node came, for the submission's author; what they cancel they know."""
    if evaluation.submission.is_attempt or evaluation.state == State.CANCELLED:
        return
    where = f"{_title(evaluation.submission.problem)} on {evaluation.profile}, {evaluation.mode}"
    _note(
        evaluation.submission.author_id,
        NoticeKind.VERDICT,
        text=f"{where}: {_outcome(evaluation)}",
        path=reverse("submissions:detail", args=[evaluation.submission_id]),
    )


@quarantine_changed.receiver
def note_quarantine(quarantine: Quarantine) -> None:
    """Note for its author that an entry is on no board any more, or on its boards again, and why."""
    submission = quarantine.submission
    now = "is on its boards again" if quarantine.lifted_at else "is in quarantine and on no board"
    _note(
        submission.author_id,
        NoticeKind.QUARANTINE,
        text=f"Your entry to {_title(submission.problem)} {now}: {quarantine.lift_reason or quarantine.reason}",
        path=reverse("submissions:detail", args=[submission.pk]),
    )


def _outcome(evaluation: Evaluation) -> str:
    if not evaluation.verdict:
        return State(evaluation.state).label
    title = FACTS[Verdict(evaluation.verdict)].title
    if evaluation.score is None:
        return title
    low, high = evaluation.score_low, evaluation.score_high
    words = speedups.in_words(evaluation.score, low, high, profile=evaluation.profile)
    ends = f" ({speedups.interval(low, high)})" if low and high else ""
    return f"{title}, {words}{ends} against the reference"


@standing_raised.receiver
def note_raised(raised: StandingRaised) -> None:
    """Note a beaten record for its holder, and a lost place for those whom the entry passed among the first ten."""
    standing = raised.standing
    if not profiles.get(standing.profile).is_ranked_by_speed or standing.score_rule != SCORE_RULE:
        return
    path = f"{reverse('ranking:board', args=[standing.problem])}?profile={standing.profile}"
    board = f"{_title(standing.problem)} on {standing.profile}"
    beaten = raised.beaten if raised.beaten and raised.beaten.author_id != standing.author_id else None
    if beaten is not None:
        text = (
            f"{standing.author.username} beat your record on {board}: "
            f"{speedups.factor(standing.score, standing.score_low, standing.score_high)} over the reference, "
            f"yours was {speedups.factor(beaten.score, beaten.score_low, beaten.score_high)}."
        )
        _note(beaten.author_id, NoticeKind.RECORD_BEATEN, text=text, path=path)
    for author, place in _passed(raised):
        if beaten is None or author != beaten.author_id:
            text = f"{standing.author.username} passed you on {board}. You are now in place {place}."
            _note(author, NoticeKind.PLACE_LOST, text=text, path=path)


def _passed(raised: StandingRaised) -> Iterable[tuple[int, int]]:
    """The authors whose best entry of the board has just moved down within the first places, and where it is now."""
    standing = raised.standing
    rows = Standing.objects.filter(
        problem=standing.problem,
        problem_revision=standing.problem_revision,
        profile=standing.profile,
        score_rule=standing.score_rule,
        author__is_active=True,
    ).order_by(*board_order(is_ranked_by_speed=True))
    seen: set[int] = {standing.author_id}
    is_behind = False
    for place, row in enumerate(rows[: FIRST_PLACES + 1], start=1):
        is_before = raised.previous_low is None or row.score_low > raised.previous_low
        if is_behind and is_before and row.author_id not in seen:
            yield row.author_id, place
        seen.add(row.author_id)
        is_behind = is_behind or row.pk == standing.pk


def _note(user_id: int, kind: NoticeKind, *, text: str, path: str) -> None:
    channels = Endpoint.objects.filter(account=user_id, account__is_active=True, removed_at=None)
    Notice.objects.bulk_create(
        Notice(endpoint=channel, kind=kind, text=text[:300], path=path[:200])
        for channel in channels
        if kind in channel.kinds
    )


def _title(slug: str) -> str:
    return next((problem.title for problem in registry.problems() if problem.slug == slug), slug)
