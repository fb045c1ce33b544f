"""Keeping boards honest: readers flag an entry, operators quarantine one with a public reason and lift it again."""

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from evaluator.contract import EvaluationReport, Mode, Verdict
from evaluator.judging.verdicts import FACTS
from portal.accounts.models import User
from portal.core.errors import Conflict, Forbidden, Refusal, TooMany
from portal.submissions.hooks import quarantine_changed
from portal.submissions.models import Evaluation, Flag, Quarantine, Submission
from portal.submissions.queue import REJUDGE_PRIORITY

FLAGS_PER_DAY = 10
"""The most entries that one reader may flag in 24 hours: each takes an operator's attention."""
REASON_CHARACTERS = 1000

_REVOKING = {
    Verdict.WRONG_RESULT,
    Verdict.WRONG_SHAPE,
    Verdict.NOT_FINITE,
    Verdict.INPUT_MUTATED,
    Verdict.NONDETERMINISTIC,
    Verdict.STALE_OUTPUT,
    Verdict.INCOMPLETE_OUTPUT,
}
"""Verdicts on what a program returns. Others may be a node's or a day's, and leave a pass as it is."""


def quarantine(submission: Submission, *, reason: str, by: User) -> Quarantine:
    """Take an entry off every board and record, with a reason that everybody reads; its page and evidence stay.

    Raises:
        Refusal: `by` is no operator (403), there is no reason, it is an attempt of a run, or it is in quarantine (409).
    """
    _require_operator(by)
    text = _reason(reason, most=500)
    if submission.is_attempt:
        raise _conflict(submission, "This is an attempt of a model's run.", "Quarantine its run.")
    with transaction.atomic():
        # The code that ends an evaluation of it locks the same row before it updates the standing.
        Submission.objects.select_for_update().get(pk=submission.pk)
        if submission.quarantines.filter(lifted_at=None).exists():
            raise _conflict(
                submission, "The entry is in quarantine already.", "To give another reason, lift the quarantine first."
            )
        created = Quarantine.objects.create(submission=submission, reason=text, by=by)
        quarantine_changed.send(created)
    return created


def revoke_pass(evaluation: Evaluation, report: EvaluationReport) -> None:
    """Quarantine an entry whose rejudge finds wrong outputs where it had passed at the same revision and profile.

    Runs inside the transaction that ends `evaluation`. The reason is the finding, which names the call. Checked calls
    are secret and new in every judgement, so a pass may have met none that shows the fault.
    """
    submission = evaluation.submission
    is_rejudge = evaluation.priority == REJUDGE_PRIORITY and evaluation.mode == Mode.RANKED
    if not is_rejudge or report.verdict not in _REVOKING or submission.is_attempt or evaluation.node_owner_id:
        return
    same = {"mode": evaluation.mode, "profile": evaluation.profile, "problem_revision": evaluation.problem_revision}
    Submission.objects.select_for_update().get(pk=submission.pk)
    if not submission.evaluations.filter(**same, verdict=Verdict.PASSED.value, node_owner=None).exists():
        return
    title = FACTS[report.verdict].title
    reason = f"Judged again on {evaluation.profile}, it did not pass. {title}: {report.message}"[:500]
    if not submission.quarantines.filter(lifted_at=None).exists():
        quarantine_changed.send(Quarantine.objects.create(submission=submission, reason=reason))


def lift_quarantine(submission: Submission, *, reason: str, by: User) -> None:
    """Restore an entry to its boards; the history of its quarantine stays on its page.

    Raises:
        Refusal: `by` is no operator (403), there is no reason, or it is in no quarantine (409).
    """
    _require_operator(by)
    text = _reason(reason, most=500)
    with transaction.atomic():
        Submission.objects.select_for_update().get(pk=submission.pk)
        lifted = submission.quarantines.filter(lifted_at=None).first()
        if lifted is None:
            raise _conflict(submission, "The entry is not in quarantine.", "There is nothing to lift.")
        lifted.lifted_at, lifted.lifted_by, lifted.lift_reason = timezone.now(), by, text
        lifted.save()
        quarantine_changed.send(lifted)


def flag(submission: Submission, *, reason: str, by: User) -> Flag:
    """Flag an entry that `by` may see for the operators.

    Raises:
        Refusal: there is no reason, the entry is the reader's own or flagged by them already (409), or they have
            flagged enough for a day (429).
    """
    text = _reason(reason, most=REASON_CHARACTERS)
    if submission.author_id == by.pk:
        raise _conflict(submission, "This entry is your own.", "Make its source private, or contact the operators.")
    with transaction.atomic():
        # The reader's row is locked: of two requests at once one is counted before the other.
        User.objects.select_for_update().only("pk").get(pk=by.pk)
        if Flag.objects.filter(submission=submission, by=by, resolved_at=None).exists():
            raise _conflict(
                submission, "You have flagged this entry already.", "Wait until an operator has reviewed it."
            )
        lately = Flag.objects.filter(by=by, at__gt=timezone.now() - timedelta(days=1)).order_by("at")
        if lately.count() >= FLAGS_PER_DAY:
            again = lately[0].at + timedelta(days=1)
            raise TooMany(
                "reason",
                FLAGS_PER_DAY,
                f"You have flagged {FLAGS_PER_DAY} entries within a day, which is the limit.",
                f"Wait until {again:%Y-%m-%d %H:%M} UTC.",
                retry_after_s=max(1, int((again - timezone.now()).total_seconds()) + 1),
            )
        return Flag.objects.create(submission=submission, by=by, reason=text)


def resolve_flags(submission: Submission, *, outcome: str, by: User) -> int:
    """Resolve every open flag on an entry with an answer; returns their number. Raises Refusal."""
    _require_operator(by)
    text = _reason(outcome, most=500)
    return Flag.objects.filter(submission=submission, resolved_at=None).update(
        resolved_at=timezone.now(), resolved_by=by, outcome=text
    )


def _reason(text: str, *, most: int) -> str:
    cleaned = text.strip()
    if cleaned and len(cleaned) <= most:
        return cleaned
    message = f"The reason has {len(cleaned)} characters." if cleaned else "The reason is empty."
    raise Refusal("reason", cleaned, message, f"Say in 1 to {most} characters what is wrong.")


def _require_operator(by: User) -> None:
    if not by.is_staff:
        message = "Only an operator can decide on entries."
        raise Forbidden("submission", by.username, message, "Flag the entry: then the operators review it.")


def _conflict(submission: Submission, message: str, remedy: str) -> Refusal:
    return Conflict("submission", submission.pk, message, remedy)
