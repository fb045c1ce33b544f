"""What authors do: submit, queue again, cancel, publish."""

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from django.conf import settings
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from evaluator import logs
from evaluator.contract import Backend, Cancellation, Mode, SourceBundle
from evaluator.hardware import profiles
from evaluator.hardware.profiles import Profile
from evaluator.judging.source_rules import check_source
from portal.accounts.actions import lock_account
from portal.accounts.models import Organisation, User
from portal.catalog import queries as catalog
from portal.core import metrics
from portal.core.errors import Refusal
from portal.core.kept_statements import KeptInsert
from portal.core.repeated_keys import check_same_request
from portal.nodes import messages
from portal.nodes.queries import guests_for
from portal.submissions import queries
from portal.submissions.allowances import Payer, payer_of_author, require_allowance, reserve
from portal.submissions.hooks import EvaluationEnded, EvaluationQueued, evaluation_ended, evaluation_queued
from portal.submissions.models import Evaluation, Source, State, Submission, Visibility
from portal.submissions.priorities import REJUDGE_PRIORITY
from portal.submissions.turns import first_turn
from portal.submissions.waiting import waiting_of
from problems import registry
from problems.spec.schema import Problem

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Submitted:
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
) -> Submitted:
    """Store a submission and queue its first evaluation, or change nothing.

    The same request with the same `idempotency_key` gives the same submission again, without a second evaluation. The
    note may differ: it is the first that stays. `node_owner` names the organisation whose nodes shall judge it, for its
    own boards: they read the source. Empty means the site's nodes. `size` is the one size of mode profile; empty means
    the sizes that the profile has for the mode.

    Raises:
        Refusal: the problem is unknown (404) or closed (409). A choice is unknown or does not fit the others. The
            source cannot be judged, or the same source already waits (409). The author's allowance is used up (429), or
            the author has none there (403). The key was used with another problem, backend, profile, mode, size,
            visibility or source (409).
    """
    asked = _Asked(
        problem=problem,
        backend=backend,
        profile=profile,
        mode=mode,
        size=size,
        visibility=visibility,
        node_owner=node_owner,
        files=files,
    )
    owner = _check_judgeable(asked)
    with transaction.atomic():
        payer = _locked_payer(author)
        earlier = _submitted_with_key(author, idempotency_key, asked)
        if earlier is not None:
            return earlier
        _check_open(problem)
        turn = _turn_if_allowed(payer, profile=profile, priority=0, owner=owner)
        submission = Submission(
            author=author,
            problem=problem,
            source=_source_for(author, asked),
            backend=backend,
            visibility=visibility,
            asked_visibility=visibility,
            note=note.strip()[:200],
            idempotency_key=idempotency_key or None,
        )
        _SUBMISSIONS.store(submission)
        queued = _queue(
            submission, payer=payer, turn=turn, profile=profile, mode=mode, size=size, priority=0, node_owner=owner
        )
    with logs.about(**queued.facts):
        logger.info("submitted to %s on %s", problem, profile)
    return Submitted(submission=submission, evaluations=(queued,), is_new=True)


_SUBMISSIONS = KeptInsert(Submission)
_EVALUATIONS = KeptInsert(Evaluation)
_NEW_SOURCES = KeptInsert(Source, unless_there=True)


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What a request for a submission asks for, in its own words: all that a repeated request has to repeat."""

    problem: str
    backend: str
    profile: str
    mode: str
    size: str
    visibility: str
    node_owner: str
    files: SourceBundle

    @property
    def compared(self) -> dict[str, str]:
        """What a second request under the same key has to share with the first."""
        return {
            "problem": self.problem,
            "backend": self.backend,
            "profile": self.profile,
            "mode": self.mode,
            "size": self.size,
            "visibility": self.visibility,
            "source": self.files.digest,
            "node_owner": self.node_owner,
        }


def queue_evaluation(
    submission: Submission, *, profile: str, mode: str, priority: int = 0, node_owner: str = "", size: str = ""
) -> Evaluation:
    """Judge a submission once more: a rejudge, or a further profile. Nothing that was found before is overwritten.

    Raises:
        Refusal: as in `create_submission`.
    """
    spec = catalog.get_problem(submission.problem)
    _judgeable(spec, backend=submission.backend, profile=profile, mode=mode, size=size)
    owner = _node_owner(node_owner, profile=profile)
    _refuse_attempt(submission, remedy="Ask the operator to judge it again. Its run counts the newest result.")
    _check_not_quarantined(submission.author, problem=submission.problem, source=submission.source)
    with transaction.atomic():
        payer = _locked_payer(submission.author)
        _check_open(submission.problem)
        turn = _turn_if_allowed(payer, profile=profile, priority=priority, owner=owner)
        unfinished = submission.evaluations.filter(state__in=State.unfinished())
        waiting = unfinished.filter(profile=profile, mode=mode, size=size, node_owner=owner).first()
        if waiting is not None:
            _refuse_double(waiting)
        return _queue(
            submission,
            payer=payer,
            turn=turn,
            profile=profile,
            mode=mode,
            size=size,
            priority=priority,
            node_owner=owner,
        )


def cancel_evaluation(evaluation: Evaluation, *, by: User) -> None:
    """End an evaluation that has not ended; a node that works on it is asked to stop.

    Raises:
        Refusal: it is not theirs (403), or it has ended already (409).
    """
    if not queries.may_change(by, evaluation.submission):
        raise Refusal(
            field="evaluation",
            value=str(evaluation.pk),
            message="This evaluation belongs to another author.",
            remedy="Only its author can cancel it.",
            status=403,
        )
    with transaction.atomic():
        # The row is locked, not the node that it may lack.
        current = Evaluation.objects.select_for_update(of=("self",)).select_related("node").get(pk=evaluation.pk)
        # A report may arrive at this very moment. Only a row that has not ended is moved, so exactly one of the two
        # wins, and the loser sees that it changed nothing.
        moved = (
            Evaluation.objects.filter(pk=evaluation.pk)
            .exclude(state__in=State.ended())
            .update(state=State.CANCELLED, finished_at=timezone.now(), lease=None, lease_expires_at=None)
        )
        if not moved:
            raise Refusal(
                field="evaluation",
                value=str(evaluation.pk),
                message="This evaluation has already ended.",
                remedy="There is nothing to cancel. To have it judged again, submit it again.",
                status=409,
            )
        evaluation.refresh_from_db(from_queryset=Evaluation.objects.select_related("submission"))
        evaluation_ended.send(EvaluationEnded(evaluation=evaluation))
    if current.node is not None and current.lease is not None:
        messages.send_cancellation(
            current.node.name, Cancellation(lease=current.lease, evaluation_id=str(evaluation.pk))
        )


def set_visibility(submission: Submission, *, visibility: str, by: User) -> None:
    """Publish the source of a submission, or make it private again; raises Refusal."""
    _check_choice("visibility", visibility, Visibility.values)
    if not queries.may_change(by, submission):
        raise Refusal(
            field="submission",
            value=str(submission.pk),
            message="This submission belongs to another author.",
            remedy="Only its author can change its visibility.",
            status=403,
        )
    _refuse_attempt(submission, remedy="Publish the run: all its sources become public together.")
    if not by.is_staff and queries.quarantine_of(submission) is not None:
        raise Refusal(
            field="submission",
            value=str(submission.pk),
            message="The entry is in quarantine, so its visibility cannot change.",
            remedy="Ask the operators to lift the quarantine first.",
            status=409,
        )
    if submission.opened_by and visibility != Visibility.PUBLIC:
        raise Refusal(
            field="visibility",
            value=visibility,
            message=f"The rules of {submission.opened_by} made this source public.",
            remedy="It stays public.",
            status=409,
        )
    submission.visibility = visibility
    submission.save(update_fields=["visibility"])


def open_sources(submission_ids: Iterable[object], *, opened_by: str) -> int:
    """Let everybody read these sources for good, because of `opened_by` (a season); returns how many were closed."""
    chosen = Submission.objects.filter(pk__in=list(submission_ids))
    closed = chosen.exclude(visibility=Visibility.PUBLIC).count()
    chosen.update(visibility=Visibility.PUBLIC, opened_by=opened_by[:120])
    return closed


def _check_judgeable(asked: _Asked) -> Organisation | None:
    """Refuse what needs no look at other submissions; whose nodes are asked for, None for the site's own."""
    spec = catalog.get_problem(asked.problem)
    profile = _judgeable(spec, backend=asked.backend, profile=asked.profile, mode=asked.mode, size=asked.size)
    owner = _node_owner(asked.node_owner, profile=profile.name)
    _check_choice("visibility", asked.visibility, Visibility.values)
    _check_source(asked.files, spec, backend=Backend(asked.backend), profile=profile, mode=Mode(asked.mode))
    return owner


def _locked_payer(author: User) -> Payer:
    """The author as the payer, whose row is locked so that two requests at once cannot both pass the checks that count.

    The other database, SQLite, allows one writing transaction at a time anyway.
    """
    lock_account(author)
    return payer_of_author(author)


def _turn_if_allowed(payer: Payer, *, profile: str, priority: int, owner: Organisation | None) -> int:
    """The turn of one more evaluation; raises Refusal where the payer's allowances have no room for it."""
    waiting = waiting_of(payer.key)
    require_allowance(payer, profile, waiting=waiting, now=timezone.now(), is_guests=owner is not None)
    return first_turn(waiting, profile=profile, priority=priority)


def _source_for(author: User, asked: _Asked) -> Source:
    """The stored source; raises Refusal where the same one is in quarantine or waits already."""
    size_bytes = sum(len(file.text.encode()) for file in asked.files.files)
    new = Source(digest=asked.files.digest, bundle=json.loads(asked.files.to_json()), size_bytes=size_bytes)
    if _NEW_SOURCES.store(new):
        return new
    source = Source.objects.defer("bundle").get(digest=new.digest)
    if not source.size_bytes:  # published elsewhere: this site had only its digest
        source.bundle, source.size_bytes = new.bundle, new.size_bytes
        source.save(update_fields=["bundle", "size_bytes"])
    _check_not_quarantined(author, problem=asked.problem, source=source)
    _check_not_waiting(author, asked, source=source)
    return source


def _judgeable(problem: Problem, *, backend: str, profile: str, mode: str, size: str) -> Profile:
    _check_choice("backend", backend, [member.value for member in Backend])
    _check_choice("mode", mode, [member.value for member in Mode])
    try:
        chosen = profiles.get(profile)
    except profiles.UnknownProfile as error:
        known = ", ".join(profiles.profiles())
        raise Refusal(
            field="profile", value=profile, message="There is no such profile.", remedy=f"Choose one of {known}."
        ) from error
    _check_size(size, mode=Mode(mode), profile=chosen)
    reason = problem.refuses(chosen.world_size, (size,) if size else chosen.sizes[Mode(mode)])
    if reason is not None:
        raise Refusal(
            field="profile",
            value=profile,
            message=f"{problem.title} does not run on {chosen.world_size} ranks: it {reason}.",
            remedy=f"Choose a profile with a world size that it allows ({problem.world_size_rule}).",
        )
    if Backend(backend) not in chosen.backends:
        judged = ", ".join(member.value for member in chosen.backends)
        raise Refusal(
            field="backend",
            value=backend,
            message=f"{chosen.name} judges only {judged}.",
            remedy=f"Choose one of {judged}, or a profile that judges {backend}.",
        )
    return chosen


def _check_size(size: str, *, mode: Mode, profile: Profile) -> None:
    if size and mode is not Mode.PROFILE:
        raise Refusal(
            field="size",
            value=size,
            message=f"Mode {mode.value} has sizes of its own.",
            remedy="Leave the size out, or choose mode profile.",
        )
    if size and size not in profile.known_sizes:
        raise Refusal(
            field="size",
            value=size,
            message=f"{profile.name} judges no such size.",
            remedy=f"Choose one of {', '.join(profile.known_sizes)}, or leave it out.",
        )


def _node_owner(slug: str, *, profile: str) -> Organisation | None:
    """Whose nodes are asked for; None for the site's own."""
    if not slug:
        return None
    owners = guests_for(profile)
    owner = owners.filter(slug=slug).first()
    if owner is None:
        known = ", ".join(owners.values_list("slug", flat=True))
        raise Refusal(
            field="node_owner",
            value=slug,
            message=f"{slug[:60]!r} has no guest node for {profile}.",
            remedy=f"Known for it are {known}." if known else "Leave it empty for the site's own nodes.",
        )
    return owner


def _check_choice(field: str, value: str, known: list[str]) -> None:
    if value not in known:
        raise Refusal(
            field=field,
            value=str(value),
            message=f"There is no such {field}.",
            remedy=f"Choose one of {', '.join(known)}.",
        )


def _check_source(files: SourceBundle, problem: Problem, *, backend: Backend, profile: Profile, mode: Mode) -> None:
    for finding in check_source(problem, files, backend=backend, profile=profile, mode=mode):
        place = f"{finding.file or SourceBundle.ENTRY}" + (f", line {finding.line}" if finding.line else "")
        raise Refusal(
            field="file",
            value=place,
            message=f"{place}: {finding.message}",
            remedy=f"The problem asks for {problem.signature}",
        )


def _check_open(slug: str) -> None:
    switch = catalog.switch(slug)
    if not switch.is_open:
        raise Refusal(
            field="problem",
            value=slug,
            message=f"This problem is closed: it accepts no submissions now. {switch.note}".strip(),
            remedy="Choose another problem.",
            status=409,
        )


def _refuse_attempt(submission: Submission, *, remedy: str) -> None:
    # Judging again until the score is good would be another benchmark, and a run is published as a whole.
    if submission.is_attempt:
        raise Refusal(
            field="submission",
            value=str(submission.pk),
            message="This submission is an attempt of a model's run.",
            remedy=remedy,
            status=409,
        )


def _check_not_quarantined(author: User, *, problem: str, source: Source) -> None:
    mine = queries.quarantined().filter(
        submission__author=author, submission__problem=problem, submission__source=source
    )
    found = mine.first()
    if found is not None:
        raise Refusal(
            field="file",
            value=str(found.submission_id),
            message=f"The same source is in quarantine: {found.reason}",
            remedy="Submit another source, or ask the operators to lift the quarantine.",
            status=403,
        )


def _check_not_waiting(author: User, asked: _Asked, *, source: Source) -> None:
    waiting = (
        # An operator's rejudge goes last and was not requested by the author: it does not count against their limit.
        Evaluation.objects.filter(state__in=State.unfinished())
        .exclude(priority=REJUDGE_PRIORITY)
        .filter(
            submission__author=author,
            submission__is_attempt=False,
            submission__problem=asked.problem,
            submission__backend=asked.backend,
            submission__source=source,
            profile=asked.profile,
            mode=asked.mode,
            size=asked.size,
        )
        .first()
    )
    if waiting is not None:
        _refuse_double(waiting)


def _refuse_double(waiting: Evaluation) -> NoReturn:
    raise Refusal(
        field="file",
        value=str(waiting.submission_id),
        message="The same source is already in the queue.",
        remedy=f"Follow it at {settings.SITE_URL}{reverse('submissions:detail', args=[waiting.submission_id])} , or "
        "cancel it there first.",
        status=409,
    )


def _submitted_with_key(author: User, key: str | None, asked: _Asked) -> Submitted | None:
    """What the same request stored before; raises Refusal where another request used the key."""
    if not key:
        return None
    if len(key) > 100:
        raise Refusal(
            field="idempotency_key", value=key, message="The key is too long.", remedy="Use at most 100 characters."
        )
    earlier = Submission.objects.select_related("source").filter(author=author, idempotency_key=key).first()
    if earlier is None:
        return None
    evaluations = queries.evaluations_of(earlier)
    # Further evaluations may be of another profile or mode; the first is what the request asked for.
    first = evaluations[-1]
    held = {
        "problem": earlier.problem,
        "backend": earlier.backend,
        "profile": first.profile,
        "mode": first.mode,
        "size": first.size,
        "visibility": earlier.asked_visibility or asked.visibility,
        "source": earlier.source.digest,
        "node_owner": first.node_owner.slug if first.node_owner else "",
    }
    check_same_request(
        field="idempotency_key", key=key, what="submission", pk=earlier.pk, came=asked.compared, held=held
    )
    return Submitted(submission=earlier, evaluations=evaluations, is_new=False)


def _queue(
    submission: Submission,
    *,
    payer: Payer,
    turn: int,
    profile: str,
    mode: str,
    size: str,
    priority: int,
    node_owner: Organisation | None,
) -> Evaluation:
    evaluation = Evaluation(
        submission=submission,
        problem_revision=registry.revision(submission.problem),
        profile=profile,
        mode=mode,
        size=size,
        priority=priority,
        node_owner=node_owner,
        request_id=logs.current("request_id"),
        payer=payer.key,
        turn=turn,
    )
    _EVALUATIONS.store(evaluation)
    reserve(payer, [evaluation])
    transaction.on_commit(lambda: metrics.queued.labels(profile, mode).inc())
    evaluation_queued.send(EvaluationQueued(evaluation=evaluation))
    return evaluation
