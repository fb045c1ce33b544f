"""Taking along what the site has of one's account, and deleting it.

The row of the account stays, without anything that says who it was or that lets anyone sign in. Entries on boards, runs
of organisations and the records of GPU time refer to it.
"""

import json
import secrets
import tempfile
import zipfile
from enum import StrEnum
from typing import IO, Any

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.core.serializers.json import DjangoJSONEncoder
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from evaluator.contract import SourceBundle, SourceFile
from portal.accounts.actions import lock_account
from portal.accounts.models import Invitation, InvitationState, Membership, Role, User
from portal.core.errors import Conflict, Refusal
from portal.deliveries import actions as deliveries
from portal.deliveries.models import Endpoint
from portal.ranking.models import Record, Standing
from portal.runs.models import RunState, Trajectory
from portal.seasons.models import Entry
from portal.submissions import actions as submissions
from portal.submissions.models import Evaluation, Report, Source, State, Submission, Visibility

REMOVED = SourceBundle(files=(SourceFile(path="solution.py", text="# Removed: the author deleted their account.\n"),))


class Entries(StrEnum):
    """The fate of the public entries of a user who leaves."""

    KEEP = "keep"
    ANONYMISE = "anonymise"
    REMOVE = "remove"


def delete_account(user: User, *, entries: Entries) -> None:
    """Delete an account: its ways in, tokens, memberships and private submissions; its entries as `entries` says.

    What waits or is being judged is cancelled first: a report that comes later belongs to nothing and is dropped.

    Raises:
        Refusal: it is an operator's, or the only owner's of an organisation with other members (409).
    """
    _check_may_delete(User.objects.get(pk=user.pk))
    _cancel_all(user)
    with transaction.atomic():
        # What takes the same lock (a submission, a token) came before and is found here, or is refused afterwards.
        lock_account(user)
        locked = User.objects.get(pk=user.pk)
        _check_may_delete(locked)
        _cancel_all(locked)
        _leave_organisations(locked)
        locked.tokens.all().delete()
        locked.channels.all().delete()
        for ways_in in (EmailAddress, SocialAccount, Authenticator):
            ways_in.objects.filter(user=locked).delete()
        _empty(_own(locked) if entries is Entries.REMOVE else _private(locked))
        _forget_person(locked, entries=entries)


def _check_may_delete(user: User) -> None:
    if user.is_staff or user.is_superuser:
        remedy = "Ask another operator to remove its operator's rights."
        raise Conflict("", user.username, "An operator's account cannot be deleted.", remedy)
    other_owners = Membership.objects.filter(
        organisation=OuterRef("organisation"), role=Role.OWNER, user__is_active=True
    ).exclude(user=user)
    others = Membership.objects.filter(organisation=OuterRef("organisation")).exclude(user=user)
    stuck = user.memberships.filter(Exists(others), ~Exists(other_owners), role=Role.OWNER).first()
    if stuck is not None:
        message = f"Nobody else owns the organisation {stuck.organisation.slug}."
        raise Conflict("", user.username, message, "Make another member its owner first.")


def _own(user: User) -> QuerySet[Submission]:
    """Their submissions; attempts of runs only where no organisation of others holds them."""
    held = Membership.objects.filter(organisation=OuterRef("attempt__run__model__organisation"))
    published = Submission.objects.filter(pk=OuterRef("pk"), attempt__run__state=RunState.PUBLISHED)
    return Submission.objects.filter(author=user).exclude(Exists(held)).exclude(Exists(published))


def _private(user: User) -> QuerySet[Submission]:
    """Those of `_own` that nobody else sees: neither public nor an entry on a board."""
    of_it = {"evaluation__submission": OuterRef("pk")}
    entries = Exists(Standing.objects.filter(**of_it)) | Exists(Record.objects.filter(**of_it))
    return _own(user).filter(visibility=Visibility.PRIVATE).exclude(entries)


def _cancel_all(user: User) -> None:
    going_on = Evaluation.objects.filter(submission__author=user, submission__is_attempt=False)
    for evaluation in going_on.exclude(state__in=State.ended()).select_related("submission"):
        try:
            submissions.cancel_evaluation(evaluation, by=user)
        except Refusal:
            continue  # it ended meanwhile


def _leave_organisations(user: User) -> None:
    now = timezone.now()
    alone = [row.organisation_id for row in user.memberships.all() if row.organisation.memberships.count() == 1]
    for webhook in Endpoint.objects.filter(organisation__in=alone, removed_at=None):
        deliveries.close(webhook)
    Endpoint.objects.filter(organisation__in=alone).update(secret="")
    user.memberships.all().delete()
    user.invitations.all().delete()
    offered = Invitation.objects.filter(invited_by=user, state=InvitationState.OPEN)
    offered.update(state=InvitationState.WITHDRAWN, ended_at=now)


def _empty(chosen: QuerySet[Submission]) -> None:
    """Remove from submissions what their author wrote and all reports on it; the rows record the GPU time."""
    ids = list(chosen.values_list("pk", flat=True))
    theirs = Submission.objects.filter(pk__in=ids)
    sources = list(theirs.values_list("source_id", flat=True))
    Report.objects.filter(evaluation__submission__in=ids).delete()
    Trajectory.objects.filter(attempt__submission__in=ids).delete()
    Evaluation.objects.filter(submission__in=ids).update(message="", stage_detail="", primitives=[], points={})
    empty = submissions.store_sources([REMOVED])
    written = {"note": "", "notes": "", "built_on": None, "idempotency_key": None}
    theirs.update(source=next(iter(empty.values())), visibility=Visibility.PRIVATE, **written)
    Source.objects.filter(pk__in=sources, submissions=None).delete()


def _forget_person(user: User, *, entries: Entries) -> None:
    """What nobody needs of the person; every session ends, since no password fits any more."""
    if entries is not Entries.KEEP:
        user.username = f"gone-{secrets.token_hex(6)}"
    user.set_unusable_password()
    user.first_name = user.last_name = user.email = ""
    user.display_name = user.affiliation = user.website = ""
    user.last_login = None
    user.left_at = timezone.now()
    user.is_active = entries is not Entries.REMOVE
    user.save()
    user.own_season_teams.update(name=user.username)


IN_MEMORY_BYTES = 4 * 1024 * 1024
_ROWS_AT_ONCE = 2000
_SOURCES_AT_ONCE = 8
"""A source has up to 512 KB, a report more: what is held at once does not grow with the account."""
_SUBMISSION = ("id", "problem", "backend", "visibility", "note", "notes", "built_on", "is_attempt", "created_at")
_EVALUATION = (
    "id", "submission_id", "problem_revision", "profile", "mode", "state", "queued_at", "started_at", "finished_at",
    "verdict", "message", "score", "score_low", "score_high", "points", "recorded_on",
)  # fmt: skip
_RUN = (
    "id", "model__name", "model__organisation__slug", "mode", "backend", "profile", "k", "sampling", "notes", "state",
    "created_at", "published_at",
)  # fmt: skip

_ENTRY = (
    "season__slug", "season__title", "team__name", "problem", "entered_at", "refused", "evaluation_id", "final_id",
)  # fmt: skip


def archive_of(user: User) -> IO[bytes]:
    """The archive, at its beginning: `account.json`, one file per kind of row, and the sources by submission.

    Secrets are not in it: of a password, a token or a second factor the site itself keeps only what checks it.
    """
    file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES)  # noqa: SIM115 - whoever sends it closes it
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        _write(archive, "account.json", _account(user))
        _write_rows(archive, "submissions.json", user.submissions.order_by("created_at").values(*_SUBMISSION))
        evaluations = Evaluation.objects.filter(submission__author=user).order_by("queued_at")
        _write_rows(archive, "evaluations.json", evaluations.values(*_EVALUATION))
        _write_rows(archive, "runs.json", user.runs.values(*_RUN))
        entries = Entry.objects.filter(evaluation__submission__author=user).order_by("entered_at")
        _write_rows(archive, "season_entries.json", entries.values(*_ENTRY))
        submissions = Submission.objects.filter(author=user).select_related("source")
        for submission in submissions.iterator(chunk_size=_SOURCES_AT_ONCE):
            for source in submission.source.files.files:
                archive.writestr(f"sources/{submission.pk}/{source.path}", source.text)
        for report in Report.objects.filter(evaluation__submission__author=user).iterator(chunk_size=_SOURCES_AT_ONCE):
            _write(archive, f"reports/{report.evaluation_id}-{report.attempt}.json", report.content)
    file.seek(0)
    return file


def _write(archive: zipfile.ZipFile, name: str, content: Any) -> None:
    archive.writestr(name, json.dumps(content, cls=DjangoJSONEncoder, indent=1))


def _write_rows(archive: zipfile.ZipFile, name: str, rows: QuerySet[Any, Any]) -> None:
    with archive.open(name, "w") as file:
        before = "[\n"
        for row in rows.iterator(_ROWS_AT_ONCE):
            file.write(f"{before}{json.dumps(row, cls=DjangoJSONEncoder)}".encode())
            before = ",\n"
        file.write(b"[]\n" if before == "[\n" else b"\n]\n")


def _account(user: User) -> dict[str, Any]:
    return {
        "username": user.username,
        "public_page": {name: getattr(user, name) for name in ("display_name", "affiliation", "website")},
        "email": user.email,
        "joined": user.date_joined,
        "last_sign_in": user.last_login,
        "addresses": list(EmailAddress.objects.filter(user=user).values("email", "verified", "primary")),
        "elsewhere": list(
            SocialAccount.objects.filter(user=user).values("provider", "uid", "extra_data", "date_joined")
        ),
        "second_factors": list(Authenticator.objects.filter(user=user).values("type", "created_at", "last_used_at")),
        "tokens": list(
            user.tokens.values("name", "prefix", "scopes", "created_at", "expires_at", "last_used_at", "revoked_at")
        ),
        "notices": list(user.channels.values("form", "kinds", "created_at")),
        "organisations": list(user.memberships.values("organisation__slug", "organisation__name", "role")),
        "seasons": list(user.season_memberships.values("season__slug", "season__title", "team__name", "joined_at")),
        "invitations": list(user.invitations.values("organisation__slug", "role", "state", "created_at")),
    }
