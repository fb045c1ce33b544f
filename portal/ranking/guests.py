"""Boards of what guests' nodes judged: apart from the site's own boards, and from all that is derived from those."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from evaluator.contract import SCORE_RULE
from evaluator.hardware.profiles import Profile, profiles
from portal.accounts.models import Organisation
from portal.submissions.models import Evaluation, State
from portal.submissions.queries import quarantined
from problems import registry
from problems.spec.schema import Problem


@dataclass(frozen=True, kw_only=True)
class GuestRow:
    """An author's best entry on a guest's board, and what the site's own node found of it, if it judged it as well."""

    entry: Evaluation
    here: Evaluation | None

    @property
    def agrees(self) -> bool:
        """Whether both passed, and their intervals share a value."""
        if self.here is None or self.here.verdict != "PASSED":
            return False
        ends = (self.entry.score_low, self.entry.score_high, self.here.score_low, self.here.score_high)
        low, high, other_low, other_high = (value if value is not None else float("nan") for value in ends)
        return low <= other_high and other_low <= high


@dataclass(frozen=True, kw_only=True)
class GuestBoard:
    """A board of an owner: a problem on a profile, judged by that owner's machines; practice boards have no places."""

    problem: Problem
    profile: Profile
    rows: tuple[GuestRow, ...]


def boards_of(owner: Organisation) -> list[GuestBoard]:
    """Every board of an owner with an entry at the problem's current revision, by problem and profile."""
    entries = _best(_accepted(owner))
    found_here = _found_here(entries)
    boards: dict[tuple[str, str], list[GuestRow]] = {}
    for entry in sorted(entries, key=_order):
        row = GuestRow(entry=entry, here=found_here.get((entry.submission_id, entry.profile)))
        boards.setdefault((entry.submission.problem, entry.profile), []).append(row)
    made = [
        GuestBoard(problem=registry.get(slug), profile=profiles()[name], rows=tuple(rows))
        for (slug, name), rows in boards.items()
    ]
    return sorted(made, key=lambda board: (board.problem.number, board.profile.name))


def _accepted(owner: Organisation) -> QuerySet[Evaluation]:
    current = [registry.revision(problem.slug) for problem in registry.problems()]
    return (
        Evaluation.objects.filter(
            node_owner=owner,
            state=State.FINISHED,
            verdict="PASSED",
            mode="ranked",
            score_rule=SCORE_RULE,
            score__isnull=False,
            problem_revision__in=current,
            submission__is_attempt=False,
            submission__author__is_active=True,
        )
        .exclude(submission__in=quarantined().values("submission"))
        .select_related("submission__author", "node")
    )


def _best(evaluations: Iterable[Evaluation]) -> list[Evaluation]:
    """Every author's best per problem and profile."""
    ordered = sorted(evaluations, key=_by_speed, reverse=True)
    return list({(each.submission.author_id, each.submission.problem, each.profile): each for each in ordered}.values())


def _by_speed(evaluation: Evaluation) -> tuple[float, datetime]:
    return (-(evaluation.score_low or 0.0), evaluation.submission.created_at)


def _order(evaluation: Evaluation) -> tuple[float, datetime]:
    """The order of a board: practice profiles do not order by speed."""
    is_ranked_by_speed = profiles()[evaluation.profile].is_ranked_by_speed
    return _by_speed(evaluation) if is_ranked_by_speed else (0.0, evaluation.submission.created_at)


def _found_here(entries: list[Evaluation]) -> dict[tuple[UUID, str], Evaluation]:
    """What the site's own nodes found of the same submissions on the same profiles, the newest of each."""
    wanted = {(entry.submission_id, entry.profile, entry.problem_revision) for entry in entries}
    own = Evaluation.objects.filter(
        submission__in=[entry.submission_id for entry in entries],
        node_owner=None,
        mode="ranked",
        state=State.FINISHED,
        recorded_on=None,
        finished_at__isnull=False,
    )
    return {
        (judged.submission_id, judged.profile): judged
        for judged in own.order_by("finished_at")
        if (judged.submission_id, judged.profile, judged.problem_revision) in wanted
    }
