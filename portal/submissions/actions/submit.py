"""What authors do: submit, queue again, cancel, publish, say what they have done."""

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone

from evaluator import logs
from evaluator.contract import Backend, Cancellation, Mode, SourceBundle
from evaluator.hardware.profiles import Profile
from evaluator.judging.points import NoSweep, swept
from evaluator.judging.source_rules import check_source
from portal.accounts.models import Organisation, User
from portal.catalog import queries as catalog
from portal.core import metrics
from portal.core.errors import Conflict, Forbidden, Refusal, check_choice, check_replay, uuid_of
from portal.nodes import actions
from portal.nodes.queries import guests_for
from portal.submissions import access, lifecycle, queries, queue
from portal.submissions.hooks import evaluation_queued
from portal.submissions.models import CLEARED, Evaluation, Source, State, Submission, Visibility
from portal.submissions.quotas import Payer, lock_author, require_room, reserve
from problems import registry
from problems.spec.schema import Problem

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SubmissionResult:
    """A submission as it is stored, with its evaluations, the newest first; an earlier one's key was repeated."""

    submission: Submission
    evaluations: tuple[Evaluation, ...]
    is_new: bool


def create_submission(
    author: User,
    *,
    problem: str,
    backend: str,
    profile: str,
    mode: str,
    files: SourceBundle,
    visibility: str = Visibility.PRIVATE,
    note: str = "",
    idempotency_key: str | None = None,
    node_owner: str = "",
    size: str = "",
    notes: str = "",
    built_on: str = "",
) -> SubmissionResult:
    """Store a submission and queue its first evaluation, or change nothing.

    The same request with the same `idempotency_key` gives the same submission again, without a second evaluation. Note,
    notes and parent may differ: the first stay. `node_owner` names the organisation whose nodes shall judge it, for its
    own boards: they read the source. Empty means the site's nodes. `size` is the one size of mode profile; empty means
    the sizes that the profile has for the mode.

    Raises:
        Refusal: the problem is unknown (404) or closed (409). A choice is unknown or does not fit the others. Notes or
            parent are refused as by `annotate.describe`. The source cannot be judged, or the same source already waits
            (409). The author's allowance is used up (429), or the author has none there (403). The key was used with
            another problem, backend, profile, mode, size, visibility or source (409).
    """
    spec = catalog.get_problem(problem)
    chosen = _judgeable(spec, backend=backend, profile=profile, mode=mode, size=size)
    submission = Submission(
        author=author,
        problem=problem,
        backend=backend,
        visibility=visibility,
        requested_visibility=visibility,
        note=note.strip()[:200],
        idempotency_key=idempotency_key or None,
    )
    describe(submission, notes=notes, built_on=built_on)
    owner = _node_owner(node_owner, profile=chosen.name)
    evaluation = Evaluation(submission=submission, profile=profile, mode=mode, size=size, node_owner=owner)
    check_choice("visibility", visibility, Visibility.values)
    _check_source(files, spec, backend=Backend(backend), profile=chosen, mode=Mode(mode))
    with transaction.atomic():
        payer = lock_author(author)
        earlier = _submitted_with_key(evaluation, files)
        if earlier is not None:
            return earlier
        _check_open(problem)
        _take_turn(evaluation, payer)
        submission.source = _source_for(evaluation, files)
        submission.save(force_insert=True)
        _queue(evaluation, payer)
    with logs.about(**evaluation.facts):
        logger.info("submitted to %s on %s", problem, profile)
    return SubmissionResult(submission=submission, evaluations=(evaluation,), is_new=True)


def queue_evaluation(
    submission: Submission, *, profile: str, mode: str, priority: int = 0, node_owner: str = "", size: str = ""
) -> Evaluation:
    """Judge a submission once more: a rejudge, or a further profile. Nothing that was found before is overwritten.

    Raises:
        Refusal: as in `create_submission`.
    """
    _judgeable(
        catalog.get_problem(submission.problem), backend=submission.backend, profile=profile, mode=mode, size=size
    )
    owner = _node_owner(node_owner, profile=profile)
    _refuse_attempt(submission, remedy="Ask the operator to judge it again. Its run counts the newest result.")
    _check_not_quarantined(submission)
    where = {"profile": profile, "mode": mode, "size": size, "node_owner": owner}
    evaluation = Evaluation(submission=submission, priority=priority, **where)
    with transaction.atomic():
        payer = lock_author(submission.author)
        _check_open(submission.problem)
        _take_turn(evaluation, payer)
        _check_not_waiting(submission.evaluations.filter(state__in=State.unfinished(), **where))
        _queue(evaluation, payer)
    return evaluation


def cancel_evaluation(evaluation: Evaluation, *, by: User) -> None:
    """End an evaluation that has not ended; a node that works on it is asked to stop.

    Raises:
        Refusal: it is not theirs (403), or it has ended already (409).
    """
    if not access.may_change(by, evaluation.submission):
        raise Forbidden(
            "evaluation", evaluation.pk, "This evaluation belongs to another author.", "Only its author can cancel it."
        )
    with transaction.atomic():
        # The row is locked, not the node that it may lack.
        current = Evaluation.objects.select_for_update(of=("self",)).select_related("node").get(pk=evaluation.pk)
        if not lifecycle.cancel(evaluation, now=timezone.now()):
            remedy = "There is nothing to cancel. To have it judged again, submit it again."
            raise Conflict("evaluation", evaluation.pk, "This evaluation has already ended.", remedy)
    evaluation.refresh_from_db(from_queryset=Evaluation.objects.select_related("submission"))
    if current.node is not None and current.lease is not None:
        actions.send_cancellation(
            current.node.name, Cancellation(lease=current.lease, evaluation_id=str(evaluation.pk))
        )


def set_visibility(submission: Submission, *, visibility: str, by: User) -> None:
    """Publish the source of a submission, or make it private again; raises Refusal."""
    check_choice("visibility", visibility, Visibility.values)
    access.require_change(by, submission, remedy="Only its author can change its visibility.")
    _refuse_attempt(submission, remedy="Publish the run: all its sources become public together.")
    if not by.is_staff and queries.quarantine_of(submission) is not None:
        message = "The entry is in quarantine, so its visibility cannot change."
        raise Conflict("submission", submission.pk, message, "Ask the operators to lift the quarantine first.")
    if submission.opened_by and visibility != Visibility.PUBLIC:
        message = f"The rules of {submission.opened_by} made this source public."
        raise Conflict("visibility", visibility, message, "It stays public.")
    submission.visibility = visibility
    submission.save(update_fields=["visibility"])


def open_sources(submission_ids: Iterable[object], *, opened_by: str) -> int:
    """Let everybody read these sources for good, because of `opened_by` (a season); returns how many were closed."""
    chosen = Submission.objects.filter(pk__in=list(submission_ids))
    closed = chosen.exclude(visibility=Visibility.PUBLIC).count()
    chosen.update(visibility=Visibility.PUBLIC, opened_by=opened_by[:120])
    return closed


def _take_turn(evaluation: Evaluation, payer: Payer) -> None:
    """Give it the payer's next turn; raises Refusal where the payer's limits have no room for it."""
    waiting, is_guests = queue.waiting_of(payer.key), evaluation.node_owner_id is not None
    require_room(payer, evaluation.profile, waiting=waiting, now=timezone.now(), is_guests=is_guests)
    evaluation.payer = payer.key
    evaluation.turn = waiting.next_turn(profile=evaluation.profile, priority=evaluation.priority)


def _source_for(evaluation: Evaluation, files: SourceBundle) -> Source:
    """The stored source; raises Refusal where the same one is in quarantine or waits already."""
    values = Source.columns_of(files)
    source, is_new = Source.objects.defer("bundle").get_or_create(digest=files.digest, defaults=values)
    if is_new:
        return source
    if not source.size_bytes:  # published elsewhere: this site had only its digest
        Source.objects.filter(pk=source.pk).update(**values)
    submission = evaluation.submission
    submission.source = source
    _check_not_quarantined(submission)
    same = Evaluation.objects.filter(
        submission__author=submission.author,
        submission__is_attempt=False,
        submission__problem=submission.problem,
        submission__backend=submission.backend,
        submission__source=source,
        profile=evaluation.profile,
        mode=evaluation.mode,
        size=evaluation.size,
    )
    # An operator's rejudge goes last and was not requested by the author: it does not count against their limit.
    _check_not_waiting(same.filter(state__in=State.unfinished()).exclude(priority=queue.REJUDGE_PRIORITY))
    return source


def _judgeable(problem: Problem, *, backend: str, profile: str, mode: str, size: str) -> Profile:
    check_choice("backend", backend, Backend)
    check_choice("mode", mode, Mode)
    chosen = catalog.get_profile(profile)
    if size and mode != Mode.PROFILE:
        raise Refusal("size", size, f"Mode {mode} has sizes of its own.", "Leave the size out, or choose mode profile.")
    if size and size not in chosen.known_sizes:
        remedy = f"Choose one of {', '.join(chosen.known_sizes)}, or leave it out."
        raise Refusal("size", size, f"{chosen.name} judges no such size.", remedy)
    if mode == Mode.SWEEP:
        try:
            swept(problem, chosen)
        except NoSweep as error:
            message = f"{error.message[:1].upper()}{error.message[1:]}."
            raise Refusal("mode", mode, message, f"{error.remedy.capitalize()}.") from error
    catalog.check_world_size(problem, chosen, (size,) if size else chosen.sizes[Mode(mode)])
    catalog.check_backend(chosen, backend)
    return chosen


def _node_owner(slug: str, *, profile: str) -> Organisation | None:
    """Whose nodes are asked for; None for the site's own."""
    if not slug:
        return None
    owners = guests_for(profile)
    owner = owners.filter(slug=slug).first()
    if owner is None:
        known = ", ".join(owners.values_list("slug", flat=True))
        remedy = f"Known for it are {known}." if known else "Leave it empty for the site's own nodes."
        raise Refusal("node_owner", slug, f"{slug[:60]!r} has no guest node for {profile}.", remedy)
    return owner


def _check_source(files: SourceBundle, problem: Problem, *, backend: Backend, profile: Profile, mode: Mode) -> None:
    for finding in check_source(problem, files, backend=backend, profile=profile, mode=mode):
        place = f"{finding.file or SourceBundle.ENTRY}" + (f", line {finding.line}" if finding.line else "")
        remedy = f"The problem asks for {problem.signature}"
        raise Refusal("file", place, f"{place}: {finding.message}", remedy, verdict=finding.verdict.value)


def _check_open(slug: str) -> None:
    switch = catalog.switch(slug)
    if not switch.is_open:
        message = f"This problem is closed: it accepts no submissions now. {switch.note}".strip()
        raise Conflict("problem", slug, message, "Choose another problem.")


def _refuse_attempt(submission: Submission, *, remedy: str) -> None:
    # Judging again until the score is good would be another benchmark, and a run is published as a whole.
    if submission.is_attempt:
        raise Conflict("submission", submission.pk, "This submission is an attempt of a model's run.", remedy)


def _check_not_quarantined(submission: Submission) -> None:
    same = {"author": submission.author, "problem": submission.problem, "source": submission.source}
    found = queries.quarantined().filter(**{f"submission__{name}": value for name, value in same.items()}).first()
    if found is not None:
        remedy = "Submit another source, or ask the operators to lift the quarantine."
        raise Forbidden("file", found.submission_id, f"The same source is in quarantine: {found.reason}", remedy)


def _check_not_waiting(same: QuerySet[Evaluation]) -> None:
    waiting = same.first()
    if waiting is not None:
        address = f"{settings.SITE_URL}{reverse('submissions:detail', args=[waiting.submission_id])}"
        message = "The same source is already in the queue."
        raise Conflict("file", waiting.submission_id, message, f"Follow it at {address} , or cancel it there first.")


def _submitted_with_key(evaluation: Evaluation, files: SourceBundle) -> SubmissionResult | None:
    """What the same request stored before; raises Refusal where another request used the key."""
    wanted = evaluation.submission
    key = wanted.idempotency_key
    if not key:
        return None
    if len(key) > 100:
        raise Refusal("idempotency_key", key, "The key is too long.", "Use at most 100 characters.")
    earlier = Submission.objects.select_related("source").filter(author=wanted.author, idempotency_key=key).first()
    if earlier is None:
        return None
    evaluations = queries.evaluations_of(earlier)
    # Further evaluations may be of another profile or mode; the first is what the request asked for.
    request = _facts(evaluation, files.digest, wanted.requested_visibility)
    stored = _facts(evaluations[-1], earlier.source.digest, earlier.requested_visibility or wanted.requested_visibility)
    check_replay(field="idempotency_key", key=key, what="submission", pk=earlier.pk, request=request, stored=stored)
    return SubmissionResult(submission=earlier, evaluations=evaluations, is_new=False)


def _facts(evaluation: Evaluation, digest: str, visibility: str) -> dict[str, str]:
    """What a second request under the same key has to share with the first."""
    return {
        "problem": evaluation.submission.problem,
        "backend": evaluation.submission.backend,
        "profile": evaluation.profile,
        "mode": evaluation.mode,
        "size": evaluation.size,
        "visibility": visibility,
        "source": digest,
        "node_owner": evaluation.node_owner.slug if evaluation.node_owner else "",
    }


def _queue(evaluation: Evaluation, payer: Payer) -> None:
    """Store an evaluation that has its turn, and tell the apps above."""
    evaluation.problem_revision = registry.revision(evaluation.submission.problem)
    evaluation.request_id = logs.current("request_id")
    evaluation.save(force_insert=True)
    reserve(payer, [evaluation])
    transaction.on_commit(lambda: metrics.queued.labels(evaluation.profile, evaluation.mode).inc())
    evaluation_queued.send(evaluation)


MAX_NOTES = 4_000
"""Characters of Markdown: tables and formulas make up to a hundred of HTML of one."""

_ID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def annotate(submission: Submission, *, notes: str, built_on: str, by: User) -> None:
    """Replace the notes and the parent of a submission, at any time; raises Refusal as `describe` does, or 403, 409."""
    access.require_change(by, submission, remedy="Only its author can write its notes.")
    if submission.is_attempt:
        message = "This submission is an attempt of a model's run."
        raise Conflict("submission", submission.pk, message, "Write the notes of the run.")
    describe(submission, notes=notes, built_on=built_on)
    submission.save(update_fields=["notes", "built_on"])


def clear_notes(submission: Submission, *, reason: str, by: User) -> None:
    """Put an operator's public reason in place of an author's notes; 403 for others, 409 where there are none.

    It stays until an operator lifts it (`free_notes`).
    """
    _replace_notes(submission, f"{CLEARED} {reason.strip()}", if_cleared=False, by=by)


def free_notes(submission: Submission, *, reason: str, by: User) -> None:  # noqa: ARG001 - the log of operators has it
    """Let an author whose notes were cleared write notes again; 403 for others, 409 where none were cleared."""
    _replace_notes(submission, "", if_cleared=True, by=by)


def _replace_notes(submission: Submission, text: str, *, if_cleared: bool, by: User) -> None:
    if not by.is_staff:
        raise Forbidden("submission", by.username, "Only an operator can clear notes.", "Flag the entry.")
    if not submission.notes or submission.has_cleared_notes != if_cleared:
        message = f"The notes of this submission {'were not cleared' if if_cleared else 'are empty or cleared'}."
        raise Conflict("submission", submission.pk, message, "Choose other submissions.")
    submission.notes = text
    submission.save(update_fields=["notes"])


def describe(submission: Submission, *, notes: str, built_on: str) -> None:
    """Set notes and parent of a submission in hand. `built_on` names the parent by its id or the address of its page.

    Raises:
        Refusal: the notes are too long, or an operator's reason stands in their place (409). No parent that its author
            may name has this id, or it is of another problem or later.
    """
    written = notes.replace("\r\n", "\n").strip()
    if len(written) > MAX_NOTES:
        message = f"The notes have {len(written):,} characters, and {MAX_NOTES:,} is the most."
        raise Refusal("notes", written, message, "Shorten them, or link to a longer text.")
    if written != submission.notes and (submission.has_cleared_notes or written.startswith(CLEARED)):
        message = "Only operators write or lift the reason for which they cleared notes."
        raise Conflict("notes", written, message, "Leave the notes as they are, or ask the operators.")
    submission.notes, submission.built_on = written, _parent(submission, built_on.strip())


def _parent(submission: Submission, text: str) -> Submission | None:
    if not text:
        return None
    named = _ID.search(text)
    parent = Submission.objects.filter(pk=uuid_of(named.group())).first() if named else None
    if parent is None or not (parent.author_id == submission.author_id or access.is_open_to_all(parent)):
        remedy = "Give the id or the address of a public submission or entry to this problem, or of one of your own."
        raise Refusal("built_on", text, "There is no such submission, or it is not public.", remedy)
    if parent.problem != submission.problem:
        message = f"That submission is to {parent.problem}, and this one to {submission.problem}."
        raise Refusal("built_on", text, message, "Name one to the same problem, or leave it empty.")
    if parent.created_at >= submission.created_at:
        raise Refusal("built_on", text, "That submission is not earlier than this one.", "Name an earlier one.")
    return parent
