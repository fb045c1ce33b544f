"""Submissions that belong to a model's run: stored and queued many at a time, judged once, published together."""

from collections.abc import Iterable, Sequence

from django.db import transaction

from evaluator import logs
from evaluator.contract import SourceBundle
from portal.nodes.queries import online_slots
from portal.submissions.models import Evaluation, Source, State, Submission, Visibility
from portal.submissions.queue import REJUDGE_PRIORITY, waiting_of
from portal.submissions.quotas import Payer, refund, reserve
from problems import registry


def store_sources(bundles: Iterable[SourceBundle]) -> dict[str, Source]:
    """Store every bundle once per content; the rows by digest."""
    wanted = {bundle.digest: bundle for bundle in bundles}
    Source.objects.bulk_create(
        (Source(digest=digest, **Source.columns_of(bundle)) for digest, bundle in wanted.items()),
        # A recorded run may have left the row without its files.
        update_conflicts=True,
        unique_fields=["digest"],
        update_fields=["bundle", "size_bytes"],
    )
    return {source.digest: source for source in Source.objects.filter(digest__in=wanted).only("id", "digest")}


def submit_attempts(
    wanted: Sequence[tuple[Submission, str]], *, profile: str, priority: int, payer: Payer
) -> list[Evaluation]:
    """Store submissions and queue an evaluation of each in its mode, in the given order, at the expense of `payer`.

    What may be judged at all was decided by the caller, who holds the payer's lock; nothing is refused here.
    """
    with transaction.atomic():
        turn = waiting_of(payer.key).next_turn(profile=profile, priority=priority)
        Submission.objects.bulk_create(submission for submission, _ in wanted)
        evaluations = Evaluation.objects.bulk_create(
            Evaluation(
                submission=submission,
                problem_revision=registry.revision(submission.problem),
                profile=profile,
                mode=mode,
                priority=priority,
                request_id=logs.current("request_id"),
                payer=payer.key,
                turn=turn + number,
            )
            for number, (submission, mode) in enumerate(wanted)
        )
        reserve(payer, evaluations)
        return evaluations


def publish_sources(submission_ids: Iterable[object]) -> None:
    """Let everybody open the submissions of a published run."""
    Submission.objects.filter(pk__in=list(submission_ids)).update(visibility=Visibility.PUBLIC)


def rejudge(evaluations: Iterable[Evaluation], *, reason: str = "") -> list[Evaluation]:
    """Queue each submission once more at the problem's current revision, after all other work.

    One that already waits in the same mode on the same profile, one whose problem is gone, and one whose files this
    site does not keep are left out. What was found before stays, and `reason` is shown with the new evaluation.
    """
    known = {problem.slug for problem in registry.problems()}
    chosen: dict[tuple[object, str, str, str, int | None], Evaluation] = {}
    for evaluation in evaluations:
        # What this site does not keep cannot be judged again.
        if evaluation.submission.problem in known and not evaluation.submission.published_by:
            chosen[_what(evaluation)] = evaluation
    with transaction.atomic():
        waiting = {_what(evaluation) for evaluation in Evaluation.objects.filter(state__in=State.unfinished())}
        turns: dict[tuple[str, str], int] = {}
        return Evaluation.objects.bulk_create(
            Evaluation(
                submission=evaluation.submission,
                problem_revision=registry.revision(evaluation.submission.problem),
                profile=evaluation.profile,
                mode=evaluation.mode,
                size=evaluation.size,
                node_owner=evaluation.node_owner,
                priority=REJUDGE_PRIORITY,
                request_id=logs.current("request_id"),
                payer=evaluation.payer,
                turn=_take_turn(turns, evaluation),
                queued_because=reason.strip()[:300],
            )
            for key, evaluation in chosen.items()
            if key not in waiting
        )


def _what(evaluation: Evaluation) -> tuple[object, str, str, str, int | None]:
    """What is judged where and how: one of a kind waits at a time."""
    return (
        evaluation.submission_id,
        evaluation.profile,
        evaluation.mode,
        evaluation.size,
        evaluation.node_owner_id,
    )


def _take_turn(turns: dict[tuple[str, str], int], evaluation: Evaluation) -> int:
    """The next turn of the payer of `evaluation` among what is judged again; `turns` remembers those given out."""
    place = (evaluation.payer, evaluation.profile)
    if place not in turns:
        turns[place] = waiting_of(evaluation.payer).next_turn(profile=evaluation.profile, priority=REJUDGE_PRIORITY)
    turns[place] += 1
    return turns[place] - 1


def rejudge_and_refund(evaluations: Iterable[Evaluation], *, reason: str = "") -> list[Evaluation]:
    """As `rejudge`, and what the evaluations have cost is given back: for errors of ours under a submission.

    Those that have not ended are left out.
    """
    ended = [evaluation for evaluation in evaluations if evaluation.has_ended]
    with transaction.atomic():
        refund(ended)
        return rejudge(ended, reason=reason)


def confirm_here(evaluations: Iterable[Evaluation], *, reason: str = "") -> list[Evaluation]:
    """Have what guests' nodes have accepted judged by the site's own, where those have the profile.

    The result counts on the site's own boards and is shown with the guest's entry. Pending ones are left out.
    """
    own = set(online_slots().values_list("profile", flat=True))
    chosen = {
        (evaluation.submission_id, evaluation.profile): evaluation
        for evaluation in evaluations
        if evaluation.node_owner_id is not None and evaluation.verdict == "PASSED" and evaluation.profile in own
    }
    here = [
        Evaluation(submission=each.submission, profile=each.profile, mode=each.mode, payer=each.payer)
        for each in chosen.values()
    ]
    return rejudge(here, reason=reason)
