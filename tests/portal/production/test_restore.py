"""A machine is lost with work on it: its last copy is restored elsewhere, and judging goes on."""

import os
import shutil
import subprocess
import sys
import time
import urllib.request
import uuid
from pathlib import Path

import psycopg2
import pytest

from tests.portal.production.conftest import ROOT
from tests.stack import Stack, wait_until

pytestmark = pytest.mark.production

SUBMIT = """
from portal.accounts.models import User
from tests.portal.factories import bundle, evaluation_of, submit
from tests.portal.test_faults import SLOW_SOLUTION
author, _ = User.objects.get_or_create(username="alice")
for number in range({count}):
    text = SLOW_SOLUTION + f"\\n# {mark} {{number}}\\n" if {slow} else None
    print("id", evaluation_of(submit(author, files=bundle(text))).pk)
"""


def copy(*arguments, url):
    return subprocess.run(
        [sys.executable, "deploy/database_copy.py", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"PKB_DATABASE_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )


SESSION = "from django.contrib.sessions.backends.db import SessionStore; SessionStore().create()"


def queue(stack, count, *, slow=False):
    program = SUBMIT.format(count=count, mark=uuid.uuid4(), slow=slow)
    printed = stack.manage("shell", "--no-imports", "-c", program)
    return [line.split()[1] for line in printed.splitlines() if line.startswith("id ")]


class Database:
    def __init__(self, postgres, *, template="template0"):
        self.name = f"restore_{uuid.uuid4().hex[:8]}"
        self.url = postgres.create_database(self.name, template=template)
        self._dsn = postgres.dsn(self.name)

    def rows(self, query, *values):
        connection = psycopg2.connect(self._dsn)
        try:
            with connection.cursor() as cursor:
                cursor.execute(query, values)
                return cursor.fetchall()
        finally:
            connection.close()

    def states(self):
        return dict(self.rows("SELECT id::text, state FROM submissions_evaluation"))

    def reports(self):
        query = "SELECT evaluation_id::text, count(*), max(received_at) FROM submissions_report GROUP BY 1"
        return {pk: (count, at) for pk, count, at in self.rows(query)}


@pytest.fixture
def lost(postgres, tmp_path):
    """A site that was lost with one evaluation judged, one at work and two waiting: database, copy, keys."""
    database = Database(postgres, template="migrated")
    with Stack(tmp_path / "first", database_url=database.url) as stack:
        stack.start_all()
        stack.manage("shell", "--no-imports", "-c", SESSION)
        assert database.rows("SELECT count(*) FROM django_session") == [(1,)]
        [judged] = queue(stack, 1)
        wait_until(lambda: database.states()[judged] == "finished", what=lambda: f"a verdict\n{stack.log('alpha')}")
        slow, *waiting = queue(stack, 3, slow=True)
        wait_until(lambda: database.states()[slow] == "running", what=lambda: f"work\n{stack.log('alpha')}")
        done = copy("backup", tmp_path / "copies", url=database.url)
        assert done.returncode == 0, done.stderr
        for name in ("web", "dispatcher", "alpha"):
            stack.kill_with_children(name)
        keys = stack.node_keys
    shutil.rmtree(tmp_path / "first")
    return {
        "database": database, "copy": Path(done.stdout.strip()), "keys": keys,
        "judged": judged, "slow": slow, "waiting": waiting,
    }  # fmt: skip


@pytest.mark.slow
def test_a_restored_copy_goes_on_judging_and_judges_nothing_twice(lost, postgres, tmp_path):
    restored = Database(postgres)
    began = time.monotonic()
    done = copy("restore", lost["copy"], url=restored.url)
    assert done.returncode == 0, done.stderr
    assert restored.rows("SELECT count(*) FROM django_session") == [(0,)]
    before = restored.reports()
    assert set(before) == {lost["judged"]}
    assert restored.states()[lost["slow"]] == "running"

    with Stack(tmp_path / "second", database_url=restored.url, node_keys=lost["keys"]) as stack:
        stack.migrate()
        url = stack.start_web()
        assert urllib.request.urlopen(f"{url}/problems/allreduce/", timeout=60).status == 200
        sys.stderr.write(f"from the copy to the first page: {time.monotonic() - began:.1f} s\n")
        stack.start_all()
        wait_until(
            lambda: set(restored.states().values()) == {"finished"},
            what=lambda: (
                f"every verdict: {restored.states()}\n{stack.log('alpha')[-2000:]}\n{stack.log('dispatcher')[-2000:]}"
            ),
            seconds=180,
        )
    after = restored.reports()
    assert after[lost["judged"]] == before[lost["judged"]]
    assert {pk: count for pk, (count, _at) in after.items()} == dict.fromkeys(
        [lost["judged"], lost["slow"], *lost["waiting"]], 1
    )
    # What was at work lost its node, and that one try alone.
    tries = dict(restored.rows("SELECT id::text, attempt FROM submissions_evaluation"))
    assert tries == {lost["judged"]: 1, lost["slow"]: 2, **dict.fromkeys(lost["waiting"], 1)}
    assert {verdict for [verdict] in restored.rows("SELECT verdict FROM submissions_evaluation")} == {"PASSED"}


def test_a_copy_is_restored_into_an_empty_database_only(postgres, tmp_path):
    full = Database(postgres, template="migrated")
    done = copy("backup", tmp_path, url=full.url)
    path = Path(done.stdout.strip())

    refused = copy("restore", path, url=full.url)
    assert refused.returncode == 1
    assert "tables; make an empty one and name that" in refused.stderr

    # A copy that is not what was written.
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))
    damaged = copy("restore", path, url=Database(postgres).url)
    assert damaged.returncode == 1
    assert "is damaged" in damaged.stderr

    path.with_name(f"{path.name}.sha256").unlink()
    assert "is missing" in copy("restore", path, url=Database(postgres).url).stderr


def test_copies_are_readable_by_their_owner_alone_and_old_ones_go(postgres, tmp_path):
    folder = tmp_path / "copies"
    folder.mkdir()
    for day in (1, 2, 3):
        (folder / f"pkb-2026010{day}-000000.dump").write_bytes(b"old")
        (folder / f"pkb-2026010{day}-000000.dump.sha256").write_text("0")
    done = copy("backup", folder, "--keep", "2", url=Database(postgres, template="migrated").url)
    path = Path(done.stdout.strip())
    assert path.stat().st_mode & 0o077 == 0
    assert sorted(found.name for found in folder.glob("*.dump")) == ["pkb-20260103-000000.dump", path.name]
    assert len(list(folder.iterdir())) == 4


def test_a_copy_of_an_address_that_is_not_postgresql_is_refused(tmp_path):
    done = copy("backup", tmp_path, url="sqlite:///var/pkb.sqlite3")
    assert done.returncode == 1
    assert "SQLite is copied as a file" in done.stderr
    assert list(tmp_path.iterdir()) == []


LEAVE_BEHIND = """
from django.db import connection
connection.cursor().execute("SELECT setval('submissions_source_id_seq', 1, false)")
"""


@pytest.mark.slow
def test_what_another_restore_left_undone_is_done_before_the_site_starts(postgres, tmp_path):
    database = Database(postgres, template="migrated")
    with Stack(tmp_path / "site", database_url=database.url) as stack:
        queue(stack, 3, slow=True)
        stack.manage("shell", "--no-imports", "-c", LEAVE_BEHIND)
        with pytest.raises(AssertionError, match="duplicate key value"):
            queue(stack, 1, slow=True)
        statistics = "SELECT count(*) > 0 FROM pg_stats WHERE tablename = 'submissions_evaluation'"
        assert database.rows(statistics) == [(False,)]
        assert "The keys of submissions_source go on" in stack.manage("prepare")
        queue(stack, 1, slow=True)
        assert database.rows(statistics) == [(True,)]
        assert "The keys of" not in stack.manage("prepare")
