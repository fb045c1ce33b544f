"""The main job over the parts of production: submit over HTTP, judged by two nodes with users of their own, a standing.

PostgreSQL, Redis, two web processes, two dispatchers and two nodes, all at once; and the broker and the database killed
in the middle of an evaluation.
"""

import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from evaluator.broker.queues import KEY_PREFIX
from evaluator.contract import node_queue
from tests import servers
from tests.portal.factories import SOLUTION
from tests.portal.production.conftest import Broker
from tests.portal.test_faults import SLOW_SOLUTION
from tests.stack import Stack, wait_until
from tools.chaos.network import Network

# The first test also starts the servers and the site: at a load of 30 that alone takes minutes.
pytestmark = [pytest.mark.production, pytest.mark.timeout(1800)]

WAIT_S = 300.0
"""Beyond any load: what is waited for either comes, or a process has ended."""

NODES = ("alpha", "beta")
PRODUCTION = {
    "PKB_EMBEDDED": "false",
    "PKB_ALLOWED_HOSTS": "127.0.0.1",
    "PKB_TRUSTED_ORIGINS": "https://127.0.0.1",
    # The machine that runs the tests may confine less than ranked work on a public site demands.
    "PKB_ACCEPT_WEAK_SANDBOX": "true",
    "PKB_MAX_QUEUED_PER_AUTHOR": "200",
    "PKB_NEW_ACCOUNT_DAYS": "0",
    # Six seconds, as in other tests, are over on a busy machine before a heartbeat is recorded; the default is 60.
    "PKB_LEASE_SECONDS": "20",
    "PKB_NODE_SILENT_SECONDS": "60",
}
# A node is given neither of these.
SECRETS_OF_THE_SITE = {"PKB_SECRET_KEY": "", "PKB_DATABASE_URL": ""}
# One author for each test that looks at standings, because an author has one per problem.
AUTHORS = ("alice", "bob", "carol", "dave", "erin")
MAKE_AUTHORS = f"""
from portal.accounts import actions
for name in {AUTHORS}:
    user = actions.sign_up(username=name, password="a long pass phrase")
    print(actions.create_token(user, name="tests", scopes=["submit", "read"], lifetime_days=1)[1])
"""


class Site:
    """A site in production mode, asked over HTTP as by its proxy, with a look into its database."""

    def __init__(self, stack: Stack, database: servers.PostgreSQL, name: str) -> None:
        self.stack = stack
        self.proxy = Network(stack.port, is_proxy=True)
        self._dsn = database.dsn(name)
        self.tokens: dict[str, str] = {}

    def start(self, broker: Broker) -> None:
        """Two of everything, and the authors."""
        self.start_processes(broker)
        self.make_authors()

    def make_authors(self) -> None:
        """Accounts with a token each."""
        printed = self.stack.manage("shell", "--no-imports", "-c", MAKE_AUTHORS)
        self.tokens = dict(zip(AUTHORS, printed.split(), strict=True))

    def start_processes(self, broker: Broker) -> None:
        """Web, dispatchers and nodes."""
        self.stack.start_web(workers=2)
        for number in "12":
            self.stack.start_dispatcher(f"dispatcher{number}")
        for name in NODES:
            self.start_node(name, broker)

    def start_node(self, name: str, broker: Broker) -> None:
        """A node that knows its own URL of the broker and no secret of the site."""
        urls = {
            "PKB_BROKER_URL": broker.node_url(name),
            "PKB_SITE_URL": f"http://127.0.0.1:{self.proxy.join(name)}",
        }
        self.stack.start_node(name, environment=SECRETS_OF_THE_SITE | urls)

    def call(self, path: str, body: dict[str, Any] | None = None, *, author: str = "alice") -> tuple[int, Any]:
        """The status and JSON of a call to the API."""
        request = urllib.request.Request(
            f"{self.stack.url}/api/v1/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.tokens[author]}",
                "Content-Type": "application/json",
                "X-Forwarded-Proto": "https",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def submit(self, source: str, *, author: str = "alice", mode: str = "ranked") -> str:
        """A submission's id."""
        marked = f"{source}\n# {uuid.uuid4()}\n"
        body = {"problem": "allreduce", "profile": "cpux2", "mode": mode, "source": marked}
        status, answer = self.call("submissions/", body, author=author)
        assert status == 201, answer
        return str(answer["id"])

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """What the database answers."""
        connection = psycopg2.connect(self._dsn)
        try:
            with connection.cursor() as cursor:
                cursor.execute(query, values)
                return cursor.fetchall()
        finally:
            connection.close()

    def state(self, submission: str) -> tuple[str, str, str, int]:
        """State, stage, verdict and attempt of a submission's evaluation."""
        query = "SELECT state, stage, verdict, attempt FROM submissions_evaluation WHERE submission_id = %s"
        [row] = self.rows(query, submission)
        return row

    def wait_for_end(self, submission: str) -> tuple[str, int]:
        """Verdict and attempt once it has ended."""

        def ended() -> bool:
            assert not self.stack.ended(), self.logs()
            return self.state(submission)[0] in ("finished", "cancelled")

        try:
            wait_until(ended, what="the evaluation ends", seconds=WAIT_S)
        except AssertionError:
            pytest.fail(f"{self.state(submission)}\n{self.logs()}")
        return self.state(submission)[2:]

    def wait_for_node(self, submission: str) -> None:
        """Until a node has taken the submission."""
        taken = ("running", "finished")
        wait_until(
            lambda: self.state(submission)[0] in taken,
            what=lambda: f"a node takes the work\n{self.logs()}",
            seconds=WAIT_S,
        )

    def wait_for_judging(self, submission: str) -> None:
        """Until a node runs the submission."""
        judging = ("verifying", "timing")
        wait_until(
            lambda: self.state(submission)[1] in judging,
            what=lambda: f"a node judges\n{self.logs()}",
            seconds=WAIT_S,
        )

    def assert_passed_once(self, submission: str) -> None:
        """PASSED, with one passed report and one standing."""
        assert self.wait_for_end(submission)[0] == "PASSED"
        query = (
            "SELECT count(*) FROM submissions_report r JOIN submissions_evaluation e ON e.id = r.evaluation_id "
            "WHERE e.submission_id = %s AND r.content->>'verdict' = 'PASSED'"
        )
        assert self.rows(query, submission) == [(1,)]
        query = (
            "SELECT count(*) FROM ranking_standing s JOIN submissions_evaluation e ON e.id = s.evaluation_id "
            "WHERE e.submission_id = %s"
        )
        assert self.rows(query, submission) == [(1,)]

    def logs(self) -> str:
        """The ends of all logs."""
        paths = sorted(Path(self.stack.data_dir).glob("*.log"))
        return "\n".join(f"--- {path.stem}\n{self.stack.log(path.stem)[-3000:]}" for path in paths)


@pytest.fixture(scope="module")
def site(broker, postgres, tmp_path_factory) -> Iterator[Site]:
    """One site for all tests of this module."""
    name = f"site_{uuid.uuid4().hex[:8]}"
    url = postgres.create_database(name, template="migrated")
    folder = tmp_path_factory.mktemp(name)
    (folder / "static").mkdir()  # only the API is asked: nothing has to be collected
    with Stack(folder, database_url=url, broker_url=broker.site_url, environment=PRODUCTION) as stack:
        started = Site(stack, postgres, name)
        started.start(broker)
        yield started
        started.proxy.close()


def test_a_submission_is_judged_and_stands(site):
    submission = site.submit(SOLUTION)

    site.assert_passed_once(submission)
    _, answer = site.call("problems/allreduce/leaderboard/?profile=cpux2")
    assert [row["author"] for row in answer["entries"]] == ["alice"]


def test_both_nodes_judge_and_nothing_is_judged_twice(site):
    free = "SELECT count(*) FROM nodes_slot WHERE state = 'free'"
    wait_until(lambda: site.rows(free) == [(2,)], what="both nodes are ready", seconds=WAIT_S)
    with ThreadPoolExecutor(4) as pool:
        submissions = list(pool.map(lambda _: site.submit(SOLUTION, mode="check"), range(4)))

    assert [site.wait_for_end(submission) for submission in submissions] == [("PASSED", 1)] * 4
    query = (
        "SELECT e.submission_id::text, r.node_name FROM submissions_report r "
        "JOIN submissions_evaluation e ON e.id = r.evaluation_id"
    )
    judged = [row for row in site.rows(query) if row[0] in submissions]
    assert len(judged) == 4
    assert {node for _, node in judged} == set(NODES)


def test_a_killed_broker_loses_nothing(site, broker):
    """Redis returns empty. A node that receives nothing says so, and is sent nothing: that would cost a try."""
    submission = site.submit(SLOW_SOLUTION, author="bob")
    waiting = [site.submit(SOLUTION, mode="check") for _ in range(2)]
    site.wait_for_judging(submission)

    broker.server.kill()
    idle = "SELECT note FROM nodes_slot WHERE state = 'starting'"
    try:
        wait_until(
            lambda: ("the node does not reach its broker",) in site.rows(idle),
            what=lambda: f"the idle node offers nothing\n{site.logs()}",
            seconds=WAIT_S,
        )
    finally:
        broker.server.start()

    site.assert_passed_once(submission)
    assert [site.wait_for_end(other)[0] for other in waiting] == ["PASSED"] * 2


def test_assignments_that_die_with_the_broker_cost_no_try(site, broker):
    """Redis has them, no node has read them, and it returns empty."""
    free = "SELECT count(*) FROM nodes_slot WHERE state = 'free'"
    wait_until(lambda: site.rows(free) == [(2,)], what="both nodes are ready", seconds=WAIT_S)
    try:
        for name in NODES:
            site.stack.pause(name)
            broker.server.break_connections(f"node.{name}")
        submissions = [site.submit(SOLUTION, mode="check") for _ in NODES]
        queues = [f"{KEY_PREFIX}{node_queue(name)}" for name in NODES]
        wait_until(  # the database says "leased" before Redis has the message
            lambda: [broker.server.admin().llen(queue) for queue in queues] == [1, 1],
            what=lambda: f"both are sent\n{site.logs()}",
            seconds=WAIT_S,
        )
        broker.server.kill()
        broker.server.start()
    finally:
        for name in NODES:
            site.stack.resume(name)

    assert [site.wait_for_end(submission) for submission in submissions] == [("PASSED", 1)] * 2
    query = "SELECT losses FROM submissions_evaluation WHERE submission_id::text = ANY(%s)"
    assert site.rows(query, submissions) == [(1,), (1,)]


def test_connections_that_break_cost_no_try(site, broker):
    """Those of nodes at work, again and again: what they have and what they get next is judged in its first try."""
    for _ in range(2):
        submissions = [site.submit(SLOW_SOLUTION, mode="check") for _ in NODES]
        for submission in submissions:
            site.wait_for_node(submission)
        for name in NODES:
            broker.server.break_connections(f"node.{name}")

        assert [site.wait_for_end(submission) for submission in submissions] == [("PASSED", 1)] * 2


def test_a_killed_database_loses_nothing(site, postgres):
    submission = site.submit(SLOW_SOLUTION, author="carol")
    site.wait_for_judging(submission)

    postgres.kill()
    postgres.start()

    site.assert_passed_once(submission)


def test_killing_every_process_but_the_servers_loses_nothing(site, broker):
    submission = site.submit(SLOW_SOLUTION, author="erin")
    site.wait_for_judging(submission)

    for name in ("web", "dispatcher1", "dispatcher2", *NODES):
        site.stack.kill_with_children(name)
    site.start_processes(broker)

    site.assert_passed_once(submission)
    assert site.state(submission)[3] == 2  # a node that took it and died costs a try


def test_a_hundred_at_once_are_all_accepted(site):
    """None lost, none stored twice; judged at leisure, so they are cancelled here."""
    with ThreadPoolExecutor(20) as pool:
        submissions = list(pool.map(lambda _: site.submit(SOLUTION, author="dave", mode="check"), range(100)))
        paths = [f"submissions/{submission}/cancel/" for submission in submissions]
        cancelled = list(pool.map(lambda path: site.call(path, {}, author="dave"), paths))

    assert len(set(submissions)) == 100
    query = "SELECT submission_id::text, count(*) FROM submissions_evaluation GROUP BY 1"
    assert {row for row in site.rows(query) if row[0] in set(submissions)} == {(name, 1) for name in submissions}
    assert {status for status, _ in cancelled} <= {200, 409}
