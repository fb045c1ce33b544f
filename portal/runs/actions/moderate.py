"""What operators decide of runs. Each decision keeps its reason and stays as evidence."""

from django.db import transaction

from portal.accounts.models import User
from portal.core.errors import Forbidden, Refusal, check_choice
from portal.runs.models import Decision, DecisionKind, Run


def decide(run: Run, *, kind: str, reason: str, by: User) -> Decision:
    """Verify, audit, quarantine or release a run, and keep who did it and why.

    A quarantined run keeps its page, with the reason, and is on no board and in no public export.

    Raises:
        Refusal: `by` is no operator (403), there is no such decision, or no reason was given.
    """
    if not by.is_staff:
        raise Forbidden("run", run.pk, "Only an operator can decide on runs.", "Ask the operator of this site.")
    check_choice("kind", kind, DecisionKind.values, noun="decision")
    if not reason.strip():
        raise Refusal("reason", "", "The decision has no reason.", "Give a reason. It is public.")
    is_about_boards = kind in (DecisionKind.QUARANTINED, DecisionKind.RELEASED)
    changes = {"is_quarantined": kind == DecisionKind.QUARANTINED} if is_about_boards else {"verification": kind}
    with transaction.atomic():
        Run.objects.filter(pk=run.pk).update(**changes)
        decision = Decision.objects.create(run=run, kind=kind, reason=reason.strip(), by=by)
    run.refresh_from_db()
    return decision
