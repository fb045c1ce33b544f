"""Everything of one account as a ZIP archive."""

import json
import tempfile
import zipfile
from typing import IO, Any

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import QuerySet

from portal.accounts.models import User
from portal.seasons.models import Entry
from portal.submissions.models import Evaluation, Report, Submission

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
        reports = Report.objects.filter(evaluation__submission__author=user)
        for report in reports.iterator(chunk_size=_SOURCES_AT_ONCE):
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
