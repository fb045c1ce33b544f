"""The whole audit: every invariant checked against the database."""

from datetime import datetime

from django.db import connection, transaction

from portal.operations.audit import attempts, boards, charges, outcomes
from portal.operations.audit.invariants import Invariant

INVARIANTS = tuple(
    each
    for module in (outcomes, boards, attempts, charges)
    for each in vars(module).values()
    if isinstance(each, Invariant)
)


def audit(now: datetime) -> dict[Invariant, tuple[str, ...]]:
    """The rows that break each invariant, in one snapshot of the database; writes nothing.

    Runs while the site works: on PostgreSQL all queries see one snapshot, on SQLite writers wait. Inside another
    transaction they see what that one sees.
    """
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if connection.vendor == "postgresql" and is_outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return {each: tuple(each.find(now)) for each in INVARIANTS}
