"""Who may see and change what: authors, their organisations for attempts of runs, owners of a season, operators."""

import uuid
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db.models import Q, QuerySet
from django.urls import reverse

from evaluator.contract import SourceBundle
from portal.accounts.models import Role, User, Viewer
from portal.core.errors import Forbidden, NotFound, Refusal, uuid_of
from portal.submissions.models import Evaluation, Submission, Visibility
from portal.submissions.queries import accepted


def visible_submissions(viewer: Viewer) -> QuerySet[Submission]:
    """Those whose page `viewer` may open: own ones, own organisations' attempts and entries, public ones; staff all."""
    submissions = Submission.objects.select_related("author", "source")
    if not isinstance(viewer, User):
        return submissions.filter(visibility=Visibility.PUBLIC)
    if viewer.is_staff:
        return submissions
    own = Q(author=viewer) | _of_own_organisations(viewer) | Q(pk__in=_read_as_owner(viewer))
    return submissions.filter(Q(visibility=Visibility.PUBLIC) | own)


def _may_open(viewer: Viewer, submission: Submission) -> bool:
    """As `visible_submissions` says, of a submission in hand: for most, nothing more is asked of the database."""
    if submission.visibility == Visibility.PUBLIC:
        return True
    if not isinstance(viewer, User):
        return False
    if viewer.is_staff or submission.author_id == viewer.pk or _is_of_own_organisation(viewer, submission):
        return True
    return not submission.is_attempt and _read_as_owner(viewer).filter(submission=submission).exists()


def _of_own_organisations(user: User) -> Q:
    return Q(attempt__run__model__organisation__in=user.organisations.values("pk"))


def _read_as_owner(user: User) -> QuerySet[Evaluation, Any]:
    """The submissions that were entered for seasons whose owners read entries, `user` being one of them.

    Participants were told so before they joined, of what counts: what was refused for the season stays out.
    """
    return Evaluation.objects.filter(
        season_entries__refused="",
        season_entries__season__owners_read=True,
        season_entries__season__organisation__memberships__user=user,
        season_entries__season__organisation__memberships__role=Role.OWNER,
    ).values("submission")


def _is_of_own_organisation(user: User, submission: Submission) -> bool:
    if not submission.is_attempt:
        return False
    return Submission.objects.filter(_of_own_organisations(user), pk=submission.pk).exists()


def may_change(viewer: Viewer, submission: Submission) -> bool:
    if not isinstance(viewer, User):
        return False
    if viewer.is_staff or viewer.pk != submission.author_id:
        return viewer.is_staff
    # An attempt is its run's: who has left the organisation reads on what they wrote, and ends nothing there.
    return not submission.is_attempt or _is_of_own_organisation(viewer, submission)


def require_change(viewer: Viewer, submission: Submission, *, remedy: str) -> None:
    if not may_change(viewer, submission):
        raise Forbidden("submission", submission.pk, "This submission belongs to another author.", remedy)


def may_read_source(viewer: Viewer, submission: Submission) -> bool:
    """Whether `viewer` may read the files of `submission`: nobody where this site does not keep them."""
    return not submission.published_by and _may_open(viewer, submission)


def readable_source(viewer: Viewer, submission: Submission) -> SourceBundle | None:
    """The files of `submission`, or None where `viewer` may not read them."""
    return submission.source.files if may_read_source(viewer, submission) else None


def submissions_of(author_id: int, viewer: Viewer) -> QuerySet[Submission]:
    """The submissions of one author, attempts of runs included, whose page `viewer` may open."""
    is_author = isinstance(viewer, User) and viewer.pk == author_id
    found = Submission.objects.select_related("author", "source") if is_author else visible_submissions(viewer)
    return found.filter(author=author_id)


def earlier_submissions(submission: Submission, viewer: Viewer) -> QuerySet[Submission]:
    """The author's submissions to the same problem before this one that `viewer` may see, newest first."""
    before = submissions_of(submission.author_id, viewer).filter(
        problem=submission.problem, is_attempt=submission.is_attempt, created_at__lt=submission.created_at
    )
    return before.order_by("-created_at")


def get_submission(viewer: Viewer, submission_id: uuid.UUID | str) -> Submission:
    """The submission with this id, if `viewer` may see it.

    Raises:
        Refusal: there is none, or it is not theirs to see (404 in both cases, so that ids cannot be probed).
    """
    found = Submission.objects.select_related("author", "source").filter(pk=uuid_of(submission_id)).first()
    if found is None or not _may_open(viewer, found):
        raise _not_found(submission_id)
    return found


def get_evaluation(viewer: Viewer, evaluation_id: uuid.UUID | str) -> Evaluation:
    """The evaluation with this id, if `viewer` may see its submission; raises Refusal (404)."""
    evaluations = Evaluation.objects.select_related("submission", "node", "node_owner")
    found = evaluations.filter(pk=uuid_of(evaluation_id)).first()
    if found is None or not _may_open(viewer, found.submission):
        raise _not_found(evaluation_id)
    return found


def public_entry(viewer: Viewer, submission_id: uuid.UUID) -> Evaluation | None:
    """The last ranked pass of a submission whose source `viewer` may not read; None where its page is theirs to open.

    Entries of a season that is not final follow the season's own rule, and guests' nodes have boards of their own.
    """
    found = accepted().filter(submission=submission_id, node_owner=None).select_related("submission__source")
    in_season = found.filter(season_entries__isnull=False, season_entries__season__final_at=None)
    entry = found.exclude(pk__in=in_season.values("pk")).order_by("-queued_at").first()
    return None if entry is None or _may_open(viewer, entry.submission) else entry


def is_open_to_all(submission: Submission) -> bool:
    """Whether everybody may open its page: its source is public, or it is an entry whose verdict is."""
    return submission.visibility == Visibility.PUBLIC or public_entry(AnonymousUser(), submission.pk) is not None


def visible_parent(viewer: Viewer, submission: Submission) -> Submission | None:
    """What its author says that it is built on, where `viewer` may open that page; else None."""
    parent = submission.built_on
    if parent is None or _may_open(viewer, parent):
        return parent
    return parent if is_open_to_all(parent) else None


def get_flaggable(viewer: User, submission_id: uuid.UUID) -> Submission:
    """The submission with this id, if `viewer` may flag it: their page is open to them, or it counts on a board.

    Raises:
        Refusal: as `get_submission` does.
    """
    if accepted().filter(submission=submission_id).exists():
        return Submission.objects.select_related("author", "source").get(pk=submission_id)
    return get_submission(viewer, submission_id)


def _not_found(key: uuid.UUID | str) -> Refusal:
    return NotFound(
        "id",
        key,
        "There is no such submission, or it is not public.",
        f"Check the address. Your own submissions are at {settings.SITE_URL}{reverse('submissions:mine')} "
        "when you are signed in.",
    )
