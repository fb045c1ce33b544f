"""Boards of what guests' nodes judged: apart from the site's own boards, and from all that is derived from those."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from evaluator.hardware.profiles import Profile, profiles
from portal.accounts.models import Organisation
from portal.ranking.queries import current
from portal.submissions.models import Evaluation, State
from portal.submissions.queries import quarantined
from problems import registry
from problems.spec.schema import Problem


def boards_of(owner: Organisation) -> list[tuple[Problem, Profile, list[dict[str, Any]]]]:
    """Every board of an owner's machines with an entry at the problem's current revision, by problem and profile.

    Each row is an author's best entry, what the site's own node found of it `here`, and whether that agrees.
    """
    best: dict[tuple[int, str, str], Evaluation] = {}
    for entry in _accepted(owner):
        best.setdefault((entry.submission.author_id, entry.submission.problem, entry.profile), entry)
    found_here = _found_here(list(best.values()))
    boards: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in best.values():
        here = found_here.get((entry.submission_id, entry.profile))
        row = {"entry": entry, "here": here, "agrees": here is not None and _agree(entry, here)}
        boards.setdefault((entry.submission.problem, entry.profile), []).append(row)
    made = [(registry.get(slug), profiles()[name], rows) for (slug, name), rows in boards.items()]
    for _, profile, rows in made:
        # They come in the order of speed, by which practice profiles do not order.
        if not profile.is_ranked_by_speed:
            rows.sort(key=lambda row: row["entry"].submission.created_at)
    return sorted(made, key=lambda board: (board[0].number, board[1].name))


def _agree(entry: Evaluation, here: Evaluation) -> bool:
    """Whether both passed, and their intervals share a value."""
    ends = (entry.score_low, entry.score_high, here.score_low, here.score_high)
    low, high, other_low, other_high = (value if value is not None else float("nan") for value in ends)
    return here.verdict == "PASSED" and low <= other_high and other_low <= high


def _accepted(owner: Organisation) -> QuerySet[Evaluation]:
    """What counts on boards of `owner`, the fastest first."""
    return (
        Evaluation.objects.filter(
            node_owner=owner,
            state=State.FINISHED,
            verdict="PASSED",
            mode="ranked",
            score__isnull=False,
            **current(),
            submission__is_attempt=False,
            submission__author__is_active=True,
        )
        .exclude(submission__in=quarantined().values("submission"))
        .select_related("submission__author", "node")
        .order_by("-score_low", "submission__created_at")
    )


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
