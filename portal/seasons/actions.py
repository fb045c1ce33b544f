"""What operators do with seasons: define, judge the leaders again, finish."""

from collections.abc import Iterable
from datetime import datetime

from django.db import IntegrityError, transaction

from portal.core.errors import Conflict
from portal.seasons import queries, scoring
from portal.seasons.definition import Definition
from portal.seasons.models import Entry, OpenedSources, Phase, Season
from portal.submissions import actions as submissions
from portal.submissions.models import Evaluation

_FIXED = ("profile", "problems", "opens_at", "rejudged_per_problem", "largest_team", "opened_sources")
"""Fields that cannot change once a season is open: people have entered under them."""


def define(definition: Definition, *, now: datetime) -> Season:
    """Store a season, or change what may still be changed of it.

    Before it opens everything may be; while it is open its title, its rules, and its end to a later moment; after its
    end title and rules.

    Raises:
        Refusal: something would change that may not any more (409).
    """
    with transaction.atomic():
        season = Season.objects.select_for_update().filter(slug=definition.slug).first()
        if season is None:
            return _created(definition)
        check_change(season, definition, now)
        has_begun = season.phase(now) is not Phase.UPCOMING
        for name in definition.__struct_fields__:
            setattr(season, name, _stored(definition, name))
        if not has_begun:
            season.announced_closes_at = definition.closes_at
        season.save()
    return season


def _created(definition: Definition) -> Season:
    values = {name: _stored(definition, name) for name in definition.__struct_fields__}
    try:
        with transaction.atomic():
            return Season.objects.create(**values, announced_closes_at=definition.closes_at)
    except IntegrityError as error:
        message = "Somebody else has just created a season of this name."
        raise Conflict("season", definition.slug, message, "Look at that season first.") from error


def _stored(definition: Definition, name: str) -> object:
    value = getattr(definition, name)
    return list(value) if isinstance(value, tuple) else value


def check_change(season: Season, definition: Definition, now: datetime) -> None:
    """Refuse (409) a change that comes too late."""
    phase = season.phase(now)
    if phase is Phase.UPCOMING:
        return
    for name in _FIXED:
        if _stored(definition, name) != getattr(season, name):
            raise Conflict(
                name, season.slug, f"The season has begun: {name} cannot be changed any more.", "Create another season."
            )
    moved = definition.closes_at != season.closes_at
    if moved and (phase is not Phase.OPEN or definition.closes_at < season.closes_at):
        message = "The end can only be moved to a later time, and only while the season is open."
        raise Conflict("closes_at", season.slug, message, f"It is {season.closes_at:%Y-%m-%d %H:%M} UTC.")


def rejudge_leaders(season: Season, *, now: datetime) -> list[Evaluation]:
    """Have the best teams' entries of every problem judged again, on fresh inputs; returns the queued evaluations.

    May be called again: it repeats evaluations that a failure of ours ended, and changes no finished result.

    Raises:
        Refusal: the season is open or final, or entries are not judged yet (409).
    """
    with transaction.atomic():
        season = Season.objects.select_for_update().get(pk=season.pk)
        _require_closed(season, now)
        if season.rejudge_at is None:
            _require_judged(season)
        chosen = _to_judge_again(season)
        queued = submissions.rejudge(entry.evaluation for entry in chosen)
        by_submission = {evaluation.submission_id: evaluation for evaluation in queued}
        for entry in chosen:
            evaluation = by_submission.get(entry.evaluation.submission_id)
            if evaluation is not None:
                Entry.objects.filter(pk=entry.pk).update(final=evaluation)
        if season.rejudge_at is None:
            Season.objects.filter(pk=season.pk).update(rejudge_at=now)
    return queued


def _to_judge_again(season: Season) -> list[Entry]:
    """The leaders' entries without a rejudge, or with one that ended without a result."""
    best = scoring.best_results(queries.results_in_order(season))
    keys = [
        result.entry
        for problem in season.problems
        for result in scoring.leaders(best, problem=problem, count=season.rejudged_per_problem)
    ]
    entries = Entry.objects.filter(pk__in=keys).select_related("evaluation__submission", "final")
    return [entry for entry in entries if entry.final is None or queries.has_failed(entry.final)]


def judge_failed_again(season: Season, *, now: datetime) -> list[Evaluation]:
    """Have entries judged again that a failure of ours has ended: they count by what is found then.

    Raises:
        Refusal: the season is judged again already, or final (409).
    """
    with transaction.atomic():
        season = Season.objects.select_for_update().get(pk=season.pk)
        if season.phase(now) in (Phase.REJUDGING, Phase.FINAL):
            raise Conflict(
                "season", season.slug, "The leaders are being judged again already.", "Run the rejudge command again."
            )
        failed = [entry for entry in queries.counted_entries(season) if queries.has_failed(entry.evaluation)]
        queued = submissions.rejudge(entry.evaluation for entry in failed)
        by_submission = {evaluation.submission_id: evaluation for evaluation in queued}
        for entry in failed:
            evaluation = by_submission.pop(entry.evaluation.submission_id, None)
            if evaluation is not None:
                Entry.objects.filter(pk=entry.pk).update(evaluation=evaluation)
    return queued


def finish(season: Season, *, now: datetime, despite_failures: bool = False) -> Season:
    """Make the standings final and open the sources that the rules name.

    With `despite_failures` an entry whose rejudge keeps failing on our side counts as not solved. A program can be what
    makes a judge fail, and nobody shall keep a season open with one.

    Raises:
        Refusal: the season is open or final, its leaders were not judged again, or that is not done (409).
    """
    with transaction.atomic():
        season = Season.objects.select_for_update().get(pk=season.pk)
        _require_closed(season, now)
        if season.rejudge_at is None:
            raise Conflict(
                "season", season.slug, "Its leaders were not judged again.", f"manage.py season rejudge {season.slug}"
            )
        if not despite_failures and _to_judge_again(season):
            message = "Some of the leaders' entries were not judged again, or a failure of ours ended their rejudge."
            remedy = f"manage.py season rejudge {season.slug}; after several tries: season finish --despite-failures"
            raise Conflict("season", season.slug, message, remedy)
        waiting = queries.counts(season).rejudge_pending
        if waiting:
            raise Conflict("season", season.slug, f"{waiting} entries are still being judged again.", "Wait for them.")
        season.final_at = now
        season.save(update_fields=["final_at"])
        open_final_sources(season)
    return season


def open_final_sources(season: Season) -> None:
    opened: Iterable[object] = ()
    if season.opened_sources == OpenedSources.ALL:
        opened = queries.counted_entries(season).values_list("evaluation__submission", flat=True)
    if season.opened_sources == OpenedSources.STANDINGS:
        opened = [result.submission_id for result in queries.standing_results(season).values()]
    submissions.open_sources(opened, opened_by=f"the season {season.title}")


def _require_closed(season: Season, now: datetime) -> None:
    phase = season.phase(now)
    if phase in (Phase.UPCOMING, Phase.OPEN):
        raise Conflict(
            "season", season.slug, f"The season closes at {season.closes_at:%Y-%m-%d %H:%M} UTC.", "Wait until then."
        )
    if phase is Phase.FINAL:
        raise Conflict("season", season.slug, "The season is final.", "A final season cannot be changed.")


def _require_judged(season: Season) -> None:
    counted = queries.counts(season)
    if counted.pending:
        raise Conflict("season", season.slug, f"{counted.pending} entries are not judged yet.", "Wait for them.")
    if counted.failed:
        message = f"A failure of ours ended the judging of {counted.failed} entries."
        raise Conflict("season", season.slug, message, f"manage.py season retry {season.slug}")
