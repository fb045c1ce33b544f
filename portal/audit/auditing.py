"""The whole audit: every invariant held against the database."""

from datetime import datetime

from django.db import connection, transaction

from portal.audit import attempts, boards, charges, outcomes
from portal.audit.invariants import Finding

INVARIANTS = (*outcomes.INVARIANTS, *boards.INVARIANTS, *attempts.INVARIANTS, *charges.INVARIANTS)


def audit(now: datetime) -> tuple[Finding, ...]:
    """Hold every invariant against the database as it is at one moment; writes nothing.

    Runs beside a site at work: on PostgreSQL all of it sees one snapshot, on SQLite nobody writes meanwhile.
    """
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return tuple(
            Finding(name=each.name, sentence=each.sentence, broken=tuple(each.find(now))) for each in INVARIANTS
        )
