"""What operators decide of runs. Each decision keeps its reason and stays as evidence."""

from django.db import transaction

from portal.accounts.models import User
from portal.core.errors import Forbidden, Refusal, check_choice
from portal.runs.models import Decision, DecisionKind, Run, Verification


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
    changes = _changes(run, DecisionKind(kind))
    with transaction.atomic():
        Run.objects.filter(pk=run.pk).update(**changes)
        decision = Decision.objects.create(run=run, kind=kind, reason=reason.strip(), by=by)
    run.refresh_from_db()
    return decision


def _changes(run: Run, kind: DecisionKind) -> dict[str, object]:
    if kind in (DecisionKind.QUARANTINED, DecisionKind.RELEASED):
        return {"is_quarantined": kind == DecisionKind.QUARANTINED}
    if kind == DecisionKind.WITHDRAWN:
        return {"verification": Verification.RECORDED if run.recorded_on else Verification.JUDGED_HERE}
    return {"verification": Verification(kind.value)}
