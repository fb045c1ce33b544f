"""An upgrade under load: the site first, then the nodes, with every pair of versions on the way, and nothing is lost.

The next version is made from this one: a field more in assignments, a field more and fields less in what nodes say, a
kind of message more in each direction, a column, an index and a table more.
"""

import shutil
import subprocess
import threading
import urllib.error
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg2
import pytest

from tests.portal.factories import SOLUTION
from tests.portal.production.test_main_job import PRODUCTION, WAIT_S, Site
from tests.stack import ROOT, Stack, wait_until

pytestmark = [pytest.mark.production, pytest.mark.slow, pytest.mark.timeout(1800)]

_SEND_HEARTBEAT = "        self._send_or_drop(NodeMessage.HEARTBEAT, status.to_json())\n"
_SEND_WORK = "    _send(node, name, work.to_json(), expires_s=valid_for_s)\n"
_FITTED = "        kept = fitted(delivery)\n"
_WITH_WEATHER = """
        from msgspec.structs import replace
        kept = replace(kept, report=replace(kept.report, weather="sun"))
"""
_CREATED_AT = "    created_at = models.DateTimeField(default=timezone.now, db_index=True)\n"
CHANGES = {
    "evaluator/contract/base.py": [('VERSION = "', 'VERSION = "after ')],
    "evaluator/contract/request.py": [('    regime: str = ""\n', '    regime: str = ""\n    weather: str = "rain"\n')],
    "evaluator/contract/report.py": [
        # Defaults are not written: to the other version these fields have gone.
        ("class EvaluationReport(Message, ", "class EvaluationReport(Message, omit_defaults=True, "),
        ("    schema_version:", '    weather: str = "rain"\n    schema_version:'),
    ],
    "evaluator/contract/node_messages.py": [
        ("class NodeStatus(Message, ", "class NodeStatus(Message, omit_defaults=True, "),
        ("    schema_version:", '    weather: str = "rain"\n    schema_version:'),
        ('    CANCEL = "node.cancel"\n', '    CANCEL = "node.cancel"\n    WEATHER = "node.weather"\n'),
        ('    REPORT = "report"\n', '    REPORT = "report"\n    WEATHER = "weather"\n'),
    ],
    "evaluator/node/worker.py": [("return NodeStatus(", 'return NodeStatus(weather="sun", ')],
    "evaluator/node/outbox.py": [
        (_SEND_HEARTBEAT, _SEND_HEARTBEAT + '        self._send_or_drop(NodeMessage.WEATHER, "{}")\n'),
        (
            _FITTED,
            _FITTED + _WITH_WEATHER,
        ),
    ],
    "portal/nodes/actions.py": [
        (_SEND_WORK, '    _send(node, TaskName.WEATHER, "{}", expires_s=valid_for_s)\n' + _SEND_WORK),
    ],
    "portal/submissions/models.py": [
        (
            _CREATED_AT,
            _CREATED_AT + '    weather = models.CharField(max_length=9, default="sun", db_default="rain")\n',
        ),
    ],
}
"""Of each file, texts of today and what the next version has in their place."""
MIGRATION = """
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

class Migration(migrations.Migration):
    atomic = False
    dependencies = [("submissions", "0001_initial")]
    operations = [
        migrations.AddField("submission", "weather", models.CharField(max_length=9, default="sun", db_default="rain")),
        migrations.CreateModel("Weather", [("id", models.BigAutoField(primary_key=True))]),
        AddIndexConcurrently("submission", models.Index(fields=["weather"], name="submission_weather")),
    ]
"""
NODES_OF = (
    "SELECT DISTINCT n.name FROM submissions_report r JOIN submissions_evaluation e ON e.id = r.evaluation_id "
    "JOIN nodes_node n ON n.id = e.node_id WHERE e.submission_id::text = ANY(%s)"
)


@pytest.fixture(scope="module")
def next_version(tmp_path_factory) -> Path:
    """A copy of the code, changed."""
    root = tmp_path_factory.mktemp("next")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if not name.startswith("tests/") and (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, root / name)
    for name, changes in CHANGES.items():
        text = (root / name).read_text()
        for before, after in changes:
            assert before in text, (name, before)
            text = text.replace(before, after, 1)
        (root / name).write_text(text)
    (root / "portal/submissions/migrations/0002_weather.py").write_text(MIGRATION)
    return root


@pytest.fixture
def site(broker, postgres, tmp_path) -> Iterator[Site]:
    """A filled site of today's version; web and a dispatcher run."""
    url = postgres.create_database("upgrade", template="migrated")
    (tmp_path / "static").mkdir()
    with Stack(tmp_path, database_url=url, broker_url=broker.site_url, environment=PRODUCTION) as stack:
        started = Site(stack, postgres, "upgrade")
        started.make_authors()
        start_site(stack)
        yield started
        started.proxy.close()


def start_site(stack: Stack) -> None:
    stack.start_web(workers=2)
    stack.start_dispatcher()


class Intake:
    """An author who submits again after each verdict, and once more where nobody answered."""

    def __init__(self, site: Site) -> None:
        self.site, self.taken, self.is_enough = site, list[str](), threading.Event()

    def work(self) -> None:
        while not self.is_enough.is_set():
            try:
                self.taken.append(self.site.submit(SOLUTION, mode="check"))
            except (urllib.error.URLError, ConnectionError):
                self.is_enough.wait(0.2)  # between the end of the old web process and the start of the new one
            else:
                has_ended = partial(self._has_ended, self.taken[-1])
                wait_until(has_ended, what="a verdict for who submits all the time", seconds=WAIT_S)

    def _has_ended(self, submission: str) -> bool:
        return self.site.state(submission)[0] == "finished"


def assert_both_nodes_judge(site: Site) -> None:
    """Submissions of now pass, on either node."""
    sent: list[str] = []
    for _ in range(4):
        sent += [site.submit(SOLUTION, mode="check") for _ in range(3)]
        assert {site.wait_for_end(each)[0] for each in sent} == {"PASSED"}
        if {name for (name,) in site.rows(NODES_OF, sent)} == {"old", "new"}:
            return
    pytest.fail(f"one node has judged nothing\n{site.logs()}")


def test_neighbouring_versions_work_together_and_an_upgrade_loses_nothing(site, broker, postgres, next_version):
    stack = site.stack
    site.start_node("old", broker)
    stack.root = next_version
    site.start_node("new", broker)
    assert_both_nodes_judge(site)  # beside the old site
    assert "does not take this node's key" not in stack.log("new")

    intake = Intake(site)
    author = ThreadPoolExecutor(1)
    submitting = author.submit(intake.work)
    try:
        with closing(psycopg2.connect(postgres.dsn("upgrade"))) as reader:
            reader.set_session(isolation_level="REPEATABLE READ")
            # An index that is made concurrently waits for a transaction that reads, such as a back-up.
            reader.cursor().execute("SELECT count(*) FROM django_migrations")
            migration = threading.Thread(target=stack.migrate)
            migration.start()
            building = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%%'"
            wait_until(lambda: site.rows(building), what="the index is being made", seconds=WAIT_S)
            before = len(intake.taken)
            assert site.call("problems/allreduce/leaderboard/?profile=cpux2")[0] == 200
            wait_until(lambda: len(intake.taken) >= before + 2, what="authors submit meanwhile", seconds=WAIT_S)
            assert migration.is_alive()
        migration.join()
        for name in ("dispatcher", "web"):
            stack.stop(name, seconds=60)
        start_site(stack)
        before = len(intake.taken)
        assert_both_nodes_judge(site)  # beside the new site
        wait_until(lambda: len(intake.taken) >= before + 2, what="authors submit to the new site", seconds=WAIT_S)
        stack.stop("old", seconds=60)
        site.start_node("old", broker)
        assert_both_nodes_judge(site)
    finally:
        intake.is_enough.set()
        author.shutdown()
    submitting.result()
    assert {site.wait_for_end(each) for each in intake.taken} == {("PASSED", 1)}
    assert site.rows("SELECT DISTINCT content->>'weather' FROM submissions_report WHERE content ? 'weather'") == [
        ("sun",)
    ]
    assert "BROKEN" not in stack.manage("audit")
