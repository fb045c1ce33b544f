"""Four dispatcher processes on PostgreSQL over the same queue and the same slots."""

import os
import subprocess
import sys

import psycopg2
import pytest

from tests.portal.production.conftest import ROOT
from tests.stack import wait_until

pytestmark = pytest.mark.production

DISPATCHERS = 4
NODES = 4
SLOTS_EACH = 4
QUEUED = 24
FILL = f"""
from django.utils import timezone
from portal.accounts.models import User
from portal.nodes.models import Node, Slot
from problems import registry
from tests.portal.factories import submit
revisions = {{problem.slug: registry.revision(problem.slug) for problem in registry.problems()}}
for number in range({NODES}):
    node = Node.objects.create(name=f"n{{number}}", key_digest="0" * 64, seen_at=timezone.now(), sandbox="full",
                               backends=["pytorch"], revisions=revisions)
    for index in range({SLOTS_EACH}):
        Slot.objects.create(node=node, index=index, profile="cpux2", state="free")
for number in range({QUEUED}):
    submit(User.objects.create_user(f"author-{{number}}"))
"""


def _waiting(cursor):
    """How many sessions wait for a lock of the data base."""
    cursor.execute(
        "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database"
        " WHERE NOT granted AND datname = current_database()"
    )
    [(count,)] = cursor.fetchall()
    return count


def test_no_work_is_sent_twice_and_no_slot_filled_twice(postgres):
    environment = os.environ | {
        "PKB_DATABASE_URL": postgres.create_database("dispatch_race", template="migrated"),
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        "PYTHONPATH": str(ROOT),
        # The nodes are rows without a process behind them: they stay online for the whole test.
        "PKB_NODE_SILENT_SECONDS": "600",
    }
    subprocess.run(
        [sys.executable, "manage.py", "shell", "--no-imports", "-c", FILL], cwd=ROOT, env=environment, check=True
    )
    running = [
        subprocess.Popen(
            [sys.executable, "tests/portal/production/race.py"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(DISPATCHERS)
    ]
    assert [process.stdout.readline() for process in running] == ["ready\n"] * DISPATCHERS
    # All four come to the first claim before one of them is let through. How many then get work is chance.
    with psycopg2.connect(postgres.dsn("dispatch_race")) as gate, gate.cursor() as cursor:
        cursor.execute("LOCK TABLE submissions_evaluation IN EXCLUSIVE MODE")
        for process in running:
            process.stdin.write("go\n")
            process.stdin.flush()
        wait_until(lambda: _waiting(cursor) == DISPATCHERS, what="all dispatchers stand at a claim")
    outputs = [process.communicate(timeout=120)[0] for process in running]

    assert [process.returncode for process in running] == [0] * DISPATCHERS
    sent = [line.split() for output in outputs for line in output.splitlines()]
    assert len(sent) == NODES * SLOTS_EACH
    assert len({(node, slot) for node, slot, _, _ in sent}) == len(sent)
    assert len({evaluation for _, _, evaluation, _ in sent}) == len(sent)
    assert len({lease for *_, lease in sent}) == len(sent)
