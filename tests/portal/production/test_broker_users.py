"""What the users of the broker may do: the site everything it needs, a node its own work and nothing else."""

import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis.exceptions
from celery import Celery
from kombu import Connection, Queue

from evaluator.broker import node_config, site_config
from evaluator.broker.queues import address_of, work_queue
from evaluator.contract import (
    Assignment,
    Backend,
    EvaluationRequest,
    Mode,
    SourceBundle,
    TaskName,
)
from tests.portal.production.conftest import ROOT, Broker

pytestmark = pytest.mark.production

REFUSED = redis.exceptions.NoPermissionError
LOCKED_OUT = redis.exceptions.AuthenticationError
WAIT_S = 20


@dataclass(frozen=True, kw_only=True)
class Parties:
    """A site and two nodes, each with the URL of its own user."""

    site_url: str
    a: str
    a_url: str
    b: str
    b_url: str

    def site_app(self) -> Celery:
        return _app(site_config(self.site_url, Path()))

    def app_of_a(self) -> Celery:
        return _app(node_config(self.a_url, Path(), node=self.a))


def _app(config: dict[str, object]) -> Celery:
    app = Celery(set_as_current=False)
    app.conf.update(config)
    return app


_known: dict[str, Parties] = {}


@pytest.fixture
def parties(broker: Broker) -> Parties:
    """The parties at this broker, made once: no test takes a right away from them."""
    if broker.public_url not in _known:
        _known[broker.public_url] = _make_parties(broker, "a", "b")
    return _known[broker.public_url]


def _make_parties(broker: Broker, a: str, b: str) -> Parties:
    return Parties(
        site_url=broker.site_url,
        a=a,
        a_url=broker.url_for("node", a),
        b=b,
        b_url=broker.url_for("node", b),
    )


def take(app: Celery, queue: Queue) -> tuple[str, list[str]]:
    """The next message of a queue: its task and arguments."""
    with app.connection_for_read() as connection, connection.SimpleQueue(queue) as messages:
        message = messages.get(timeout=WAIT_S)
        message.ack()
        return message.headers["task"], message.payload[0]


def clear(app: Celery, queue: Queue) -> None:
    """Remove what other tests have left."""
    with app.connection_for_read() as connection, connection.SimpleQueue(queue) as messages:
        messages.clear()


def put(app: Celery, queue: Queue) -> None:
    """Send a message to a queue by its name."""
    with app.connection_for_write() as connection, connection.channel() as channel:
        producer = app.amqp.Producer(channel, auto_declare=False)
        producer.publish({}, exchange="", routing_key=queue.name, declare=[])


def test_a_node_receives_its_work(parties):
    request = EvaluationRequest(
        evaluation_id=str(uuid.uuid4()),
        problem="allreduce",
        revision="0" * 16,
        source=SourceBundle(files=()),
        backend=Backend.PYTORCH,
        profile="cpux2",
        mode=Mode.CHECK,
    )
    text = Assignment(lease="a-lease", slot=0, request=request).to_json()

    parties.site_app().send_task(TaskName.JUDGE, args=(text,), **address_of(work_queue(parties.a)))

    assert take(parties.app_of_a(), work_queue(parties.a)) == (TaskName.JUDGE, [text])


def test_a_node_cannot_read_the_work_of_another(parties):
    with pytest.raises(REFUSED):
        take(parties.app_of_a(), work_queue(parties.b))


def test_a_node_cannot_give_work_to_another(parties):
    with pytest.raises(REFUSED):
        put(parties.app_of_a(), work_queue(parties.b))


def test_a_removed_node_is_locked_out(broker):
    url = broker.url_for("node", "removed")
    assert broker.credentials("remove", "removed").returncode == 0

    with pytest.raises(LOCKED_OUT):
        Connection(url).connect()


def test_a_new_password_voids_the_old_one(broker):
    old_url, new_url = (broker.url_for("node", "renewed") for _ in range(2))

    Connection(new_url).connect()
    with pytest.raises(LOCKED_OUT):
        Connection(old_url).connect()


@pytest.fixture(scope="module")
def confined(broker) -> str:
    return broker.url_for("node", "confined")


SEND = """
import sys
from pathlib import Path
from celery import Celery
from evaluator.broker import node_config
from evaluator.broker.queues import address_of, work_queue
app = Celery()
app.conf.update(node_config(sys.argv[1], Path(), node="a"))
app.send_task("anything", **address_of(work_queue("a")))
"""


def sent_over_tls(broker: Broker, parties: Parties, *, host: str, trusted: bool) -> subprocess.CompletedProcess[str]:
    """Let a node send a message over TLS, in a process of its own as connections are shared within one."""
    url = urlsplit(parties.a_url)
    over_tls = url._replace(
        scheme=f"{url.scheme}s", netloc=f"{url.username}:{url.password}@{host}:{broker.server.tls_port}"
    )
    trust = {"SSL_CERT_FILE": str(broker.server.certificate)} if trusted else {}
    return subprocess.run(
        [sys.executable, "-c", SEND, over_tls.geturl()],
        cwd=ROOT,
        env=os.environ | trust,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_node_on_another_machine_reaches_the_broker_over_tls(broker, parties):
    assert sent_over_tls(broker, parties, host="localhost", trusted=True).returncode == 0


@pytest.mark.parametrize(("host", "trusted"), [("localhost", False), ("127.0.0.1", True)], ids=["issuer", "host"])
def test_a_broker_that_cannot_prove_who_it_is_is_sent_nothing(broker, parties, host, trusted):
    done = sent_over_tls(broker, parties, host=host, trusted=trusted)

    assert done.returncode != 0
    assert "CERTIFICATE_VERIFY_FAILED" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("LPUSH", "pkb:portal", "x"),
        ("LPUSH", "pkb:node.b", "x"),
        ("BRPOP", "pkb:node.b", "1"),
        ("SET", "pkb:node.confined", "no list"),
        ("DEL", "pkb:node.confined"),
        ("LRANGE", "pkb:node.confined", "0", "-1"),
        ("LPUSH", "elsewhere", "x"),
        ("KEYS", "*"),
        ("SUBSCRIBE", "channel"),
        ("EVAL", "return redis.call('KEYS', '*')", "0"),
        ("ACL", "LIST"),
        ("CONFIG", "GET", "*"),
        ("FLUSHALL",),
    ],
    ids=" ".join,
)
def test_a_node_can_do_nothing_else_on_redis(confined, command):
    client = redis.Redis.from_url(confined)

    with pytest.raises(redis.exceptions.NoPermissionError):
        client.execute_command(*command)


def test_the_site_cannot_administer_redis(broker):
    client = redis.Redis.from_url(broker.site_url)

    for command in (("ACL", "LIST"), ("CONFIG", "GET", "*"), ("FLUSHALL",), ("SET", "elsewhere", "1")):
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.execute_command(*command)


@pytest.mark.parametrize("name", ["*", "a.b", "A", "", "x" * 61])
def test_a_name_that_could_widen_rights_is_refused(broker, name):
    done = broker.credentials("node", name)

    assert done.returncode == 1
    assert "cannot be the name of a node" in done.stderr
    assert "Traceback" not in done.stderr


def test_addresses_that_do_not_fit_are_refused(broker):
    done = broker.credentials("site", PKB_BROKER_PUBLIC_URL="amqp://127.0.0.1/pkb")

    assert (done.returncode, done.stdout) == (1, "")
    assert "PKB_BROKER_PUBLIC_URL is amqp://" in done.stderr


def test_a_broker_that_does_not_answer_is_named(broker):
    done = broker.credentials("site", PKB_BROKER_ADMIN_URL="redis://127.0.0.1:1/0")

    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    assert "127.0.0.1:1" in done.stderr


def test_passwords_are_not_kept_in_the_clear(broker):
    url = broker.url_for("node", "hashed")
    password = url.split(":")[2].split("@")[0]

    assert password not in (broker.server.folder / "users.acl").read_text()
