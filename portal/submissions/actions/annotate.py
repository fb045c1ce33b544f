"""What authors say of a submission: notes in Markdown, and what it is built on."""

import re

from portal.accounts.models import User
from portal.core.errors import Conflict, Forbidden, Refusal
from portal.core.requests import uuid_of
from portal.submissions import access
from portal.submissions.models import Submission

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
    """Put an operator's public reason in place of an author's notes; 403 for others, 409 where there are none."""
    if not by.is_staff:
        raise Forbidden("submission", by.username, "Only an operator can clear notes.", "Flag the entry.")
    if not submission.notes:
        raise Conflict("submission", submission.pk, "This submission has no notes.", "There is nothing to clear.")
    submission.notes = f"*Cleared by an operator:* {reason.strip()}"
    submission.save(update_fields=["notes"])


def describe(submission: Submission, *, notes: str, built_on: str) -> None:
    """Set notes and parent of a submission in hand. `built_on` names the parent by its id or the address of its page.

    Raises:
        Refusal: the notes are too long. No parent that its author may name has this id, or it is of another problem or
            later.
    """
    written = notes.replace("\r\n", "\n").strip()
    if len(written) > MAX_NOTES:
        message = f"The notes have {len(written):,} characters, and {MAX_NOTES:,} is the most."
        raise Refusal("notes", written, message, "Shorten them, or link to a longer text.")
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
