"""The folder broker, and what happens when a broker takes nothing."""

import base64
import hashlib
import json
import os
import shutil
import socket
import socketserver
import subprocess
import threading

import msgspec
import pytest
import redis
from celery import Celery
from kombu import Connection

from evaluator.broker import node_config, site_config
from evaluator.contract import (
    MOST_REPORT_BYTES,
    Assignment,
    Backend,
    ContractError,
    Delivery,
    EvaluationRequest,
    Mode,
    NodeStatus,
    RankState,
    Receipt,
    SandboxLevel,
    Stage,
    StageTime,
    Upload,
)
from evaluator.node.outbox import Outbox
from evaluator.node.report_size import LEFT_OUT, fitted
from evaluator.node.settings import Misconfigured, NodeSettings
from evaluator.node.slots import failure_report
from portal.nodes import messages
from tests.portal.factories import bundle
from tests.stack import wait_until

CLOSED_PORT = "redis://127.0.0.1:1/0"


def connection_to(folder):
    config = site_config("filesystem://", folder)
    return Connection(config["broker_url"], transport_options=config["broker_transport_options"])


def node_app(url, folder):
    app = Celery("test-node", set_as_current=False, fixups=[])
    app.conf.update(node_config(url, folder, node="alpha"))
    return app


def a_request():
    return EvaluationRequest(
        evaluation_id="00000000-0000-0000-0000-000000000001",
        problem="allreduce",
        revision="0123456789abcdef",
        source=bundle(),
        backend=Backend.PYTORCH,
        profile="cpux2",
        mode=Mode.CHECK,
    )


def a_delivery():
    return Delivery(lease="secret lease", node="alpha", report=failure_report(a_request(), "for the test"))


def messages_in(folder, queue="portal"):
    with connection_to(folder) as connection:
        return connection.default_channel._size(queue)  # noqa: SLF001 - kombu's own name for it


def test_messages_come_in_the_order_of_sending_and_once(tmp_path):
    with connection_to(tmp_path) as connection:
        queue = connection.SimpleQueue("portal")
        for number in range(5):
            queue.put({"number": number})
    with connection_to(tmp_path) as connection:
        queue = connection.SimpleQueue("portal")
        received = []
        for _ in range(5):
            message = queue.get(timeout=5)
            received.append(message.payload["number"])
            message.ack()
        with pytest.raises(queue.Empty):
            queue.get(block=False)
    assert received == list(range(5))


def test_two_readers_never_get_the_same_message(tmp_path):
    total = 60
    with connection_to(tmp_path) as connection:
        queue = connection.SimpleQueue("portal")
        for number in range(total):
            queue.put(number)
    taken = []

    def read():
        with connection_to(tmp_path) as connection:
            queue = connection.SimpleQueue("portal")
            while True:
                try:
                    message = queue.get(timeout=1)
                except queue.Empty:
                    return
                taken.append(message.payload)
                message.ack()

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(total))


def test_messages_are_for_their_owner_only(tmp_path):
    with connection_to(tmp_path) as connection:
        connection.SimpleQueue("portal").put({"key": "secret"})
    [message] = (tmp_path / "portal").glob("*.json")
    assert message.stat().st_mode & 0o077 == 0
    assert (tmp_path / "portal").stat().st_mode & 0o077 == 0


def test_a_report_waits_on_disk_until_the_broker_takes_it_and_survives_a_new_process(tmp_path):
    broker, spool = tmp_path / "broker", tmp_path / "spool"
    broker.write_text("a file where the broker's folder should be")
    first = Outbox(node_app("filesystem://", broker), spool, key="a key")
    first.start()
    first.deliver(a_delivery())
    first.close()
    assert len(list(spool.glob("*.json"))) == 1
    broker.unlink()
    second = Outbox(node_app("filesystem://", broker), spool, key="a key")
    second.start()
    wait_until(lambda: not list(spool.glob("*.json")), what="the report is sent", seconds=30)
    second.close()
    assert messages_in(broker) == 1


def test_a_report_is_sent_again_where_the_broker_lost_it_and_removed_once_the_site_has_it(tmp_path):
    broker, spool = tmp_path / "broker", tmp_path / "spool"
    first = Outbox(node_app("filesystem://", broker), spool, key="a key")
    first.start()
    first.deliver(a_delivery())
    kept = wait_until(lambda: list(spool.glob("*.sent")), what="the report is sent", seconds=30)[0]
    assert first.evaluations == (a_request().evaluation_id,), "the lease is renewed until the site has it"
    first.close()
    assert messages_in(broker) == 1
    shutil.rmtree(broker)  # it dies, and comes back empty
    os.utime(kept, (0, 0))  # the receipt is late

    second = Outbox(node_app("filesystem://", broker), spool, key="a key")
    second.start()
    wait_until(lambda: messages_in(broker) == 1 and kept.exists(), what="the report is sent again", seconds=30)
    second.forget(Receipt(sha256=hashlib.sha256(kept.read_bytes()).hexdigest()))
    assert not list(spool.iterdir())
    second.close()


@pytest.mark.parametrize("name", ["../outside", "", "A" * 64])
def test_a_receipt_names_a_report_and_no_other_file(name):
    with pytest.raises(ContractError, match="sha256"):
        Receipt.from_json(json.dumps({"sha256": name}))


def test_a_report_without_a_receipt_is_not_sent_for_ever(tmp_path):
    """The copies may all wait for a site that is away, and a site of an earlier version sends no receipts."""
    spool = tmp_path / "spool"
    outbox = Outbox(node_app("filesystem://", tmp_path / "broker"), spool, key="a key")
    outbox.deliver(a_delivery())
    for _ in range(20):
        outbox._send_spooled()  # noqa: SLF001 - one round of its thread
        for kept in spool.glob("*.sent"):
            os.utime(kept, (0, 0))
    assert 1 < messages_in(tmp_path / "broker") < 10
    assert not list(spool.iterdir())
    assert outbox.evaluations == ()


def test_a_report_that_the_disk_does_not_take_goes_by_the_broker_at_once(tmp_path, caplog):
    spool = tmp_path / "spool"
    outbox = Outbox(node_app("filesystem://", tmp_path / "broker"), spool, key="a key")
    # As with a full disk, nothing can be written there.
    spool.rmdir()
    spool.write_text("a file where the spool folder should be")
    outbox.deliver(a_delivery())
    assert messages_in(tmp_path / "broker") == 1
    assert f"the spool folder {spool} takes no report" in caplog.text

    closed = Outbox(node_app(CLOSED_PORT, tmp_path), tmp_path / "other", key="a key")
    (tmp_path / "other").rmdir()
    with pytest.raises(FileNotFoundError):
        closed.deliver(a_delivery())


@pytest.fixture
def narrow_broker(tmp_path):
    """A Redis that takes no message of more than a megabyte."""
    yield from redis_that_takes("1mb", tmp_path)


@pytest.fixture
def wide_broker(tmp_path):
    """A Redis that takes what RabbitMQ takes by default."""
    yield from redis_that_takes("16mb", tmp_path)


def redis_that_takes(most, tmp_path):
    """The address of a Redis that refuses longer messages than `most`."""
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server on this machine")
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    options = ["--port", str(port), "--save", "", "--bind", "127.0.0.1", "--proto-max-bulk-len", most]
    with subprocess.Popen(["redis-server", *options, "--dir", str(tmp_path)], stdout=subprocess.DEVNULL) as server:
        url = f"redis://127.0.0.1:{port}/0"
        wait_until(lambda: _answers(url), what="Redis answers", seconds=30)
        yield url
        server.terminate()


def _answers(url):
    try:
        return redis.Redis.from_url(url).ping()
    except redis.RedisError:
        return False


def test_a_report_that_the_broker_refuses_is_set_aside_and_logged_and_the_next_ones_pass(narrow_broker, tmp_path):
    spool = tmp_path / "spool"
    app = node_app(narrow_broker, tmp_path)
    outbox = Outbox(app, spool, key="a key")
    outbox.deliver(with_ranks(a_delivery(), 1_500_000))
    outbox.deliver(a_delivery())
    outbox.start()
    waiting = redis.Redis.from_url(narrow_broker)
    wait_until(lambda: waiting.llen("pkb:portal") == 1, what="the next report passes", seconds=60)
    status = NodeStatus(node="a", key="k", slots=(), sandbox=SandboxLevel.NONE, backends=(), revisions={})

    def is_logged():
        outbox.send_status(status)
        return not list(spool.glob("*.json"))

    wait_until(is_logged, what="the refused report is set aside", seconds=100)
    outbox.close()
    [refused] = spool.glob("*.refused")
    assert Delivery.from_json(refused.read_text()).report.ranks
    reports = reports_in(waiting)
    assert sorted("everything but the verdict" in report.environment.get(LEFT_OUT, "") for report in reports) == [0, 1]


def reports_in(broker):
    """The reports that wait for the site."""
    texts = [json.loads(base64.b64decode(json.loads(raw)["body"]))[0][0] for raw in broker.lrange("pkb:portal", 0, -1)]
    return [Delivery.from_json(text).report for text in texts if '"report"' in text]


def with_ranks(delivery, characters, *, character="x"):
    """Of one rank the contract takes less: 32 share the letters."""
    state = RankState(rank=0, exit="exit 0", phase="in call 1", calls_done=1, log=character * (characters // 32))
    ranks = tuple(msgspec.structs.replace(state, rank=rank) for rank in range(32))
    return msgspec.structs.replace(delivery, report=msgspec.structs.replace(delivery.report, ranks=ranks))


def test_a_report_over_the_limit_loses_evidence_and_keeps_its_verdict():
    huge = with_ranks(a_delivery(), 20_000_000)
    small = fitted(huge)
    assert len(small.to_json()) <= MOST_REPORT_BYTES
    assert (small.report.verdict, small.report.message) == (huge.report.verdict, huge.report.message)
    assert small.report.environment[LEFT_OUT].endswith("most of what ranks printed")
    whole = a_delivery()
    assert fitted(whole) is whole
    for most_bytes in (0, 1_000, 10_000):
        assert fitted(huge, most_bytes=most_bytes).report.verdict is huge.report.verdict


@pytest.mark.parametrize("character", ["a", '"', "\\", "é", "字", "😀"])
def test_a_report_at_the_limit_is_taken_whatever_letters_it_has(wide_broker, tmp_path, character):
    """A program prints letters that take three times the bytes in Celery's coding."""
    outbox = Outbox(node_app(wide_broker, tmp_path), tmp_path / "spool", key="a key")
    outbox.deliver(with_ranks(a_delivery(), 7_900_000 // len(character.encode()), character=character))
    outbox.start()
    waiting = redis.Redis.from_url(wide_broker)
    wait_until(lambda: waiting.llen("pkb:portal") == 1, what="the report is taken", seconds=60)
    outbox.close()
    [report] = reports_in(waiting)
    assert report.ranks[0].log.startswith(character * 8000)


def test_the_nodes_own_log_does_not_make_a_report_too_large():
    long = msgspec.structs.replace(a_delivery(), error_log="\0" * 20_000_000)
    assert len(fitted(long).to_json()) < MOST_REPORT_BYTES


def test_a_report_that_the_site_could_not_read_is_not_sent(tmp_path):
    """JSON has no infinity: the number becomes null, and the site would refuse the report as malformed."""
    stages = (StageTime(stage=Stage.BUILDING, seconds=float("inf")),)
    delivery = a_delivery()
    endless = msgspec.structs.replace(delivery, report=msgspec.structs.replace(delivery.report, stages=stages))
    outbox = Outbox(node_app("filesystem://", tmp_path / "broker"), tmp_path / "spool", key="a key")
    with pytest.raises(ContractError, match="stages"):
        outbox.deliver(endless)
    assert not list((tmp_path / "spool").iterdir())


def test_damaged_files_in_the_spool_do_not_keep_reports_from_the_site(tmp_path, caplog):
    """As after a power failure, or an update: half a report, one of another version, half a permission to upload."""
    broker, spool = tmp_path / "broker", tmp_path / "spool"
    outbox = Outbox(node_app("filesystem://", broker), spool, key="a key")
    (spool / "half.json").write_bytes(b'{"lease":"\xc3')
    (spool / "other.json").write_text('{"of":"another version"}')
    (spool / "other.upload").write_text("")
    (spool / "folder.json").mkdir()
    for permission in ("", '{"of":"another version"}'):
        outbox.deliver(a_delivery(), upload=Upload(url="file:///nowhere", key="k"))
        newest = max(spool.glob("*.upload"), key=lambda path: path.stat().st_mtime_ns)
        newest.write_text(permission)
    outbox.deliver(a_delivery())
    outbox.start()
    wait_until(lambda: messages_in(broker) == 3, what=lambda: caplog.text, seconds=30)
    outbox.close()
    assert sorted(path.name for path in spool.glob("*.refused")) == ["half.refused", "other.refused"]
    assert [path.name for path in spool.glob("*.json")] == ["folder.json"]


def test_the_site_hears_no_longer_of_a_report_that_was_damaged_on_the_disk(tmp_path):
    """The site waits for an evaluation as long as its node says that it has it at hand."""
    spool = tmp_path / "spool"
    outbox = Outbox(node_app("filesystem://", tmp_path / "broker"), spool, key="a key")
    outbox.deliver(a_delivery())
    assert outbox.evaluations == (a_request().evaluation_id,)
    [kept] = spool.glob("*.json")
    kept.write_bytes(kept.read_bytes()[:100])
    outbox._send_spooled()  # noqa: SLF001 - one round of its thread
    assert outbox.evaluations == ()
    assert [path.suffix for path in spool.iterdir()] == [".refused"]


@pytest.fixture
def storage():
    """The address of a storage that answers with no HTTP, and how often it was asked."""
    asked = []

    class Answer(socketserver.BaseRequestHandler):
        def handle(self):
            asked.append(self.request.recv(1 << 20))
            self.request.sendall(b"\0 no HTTP\r\n\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/", asked
        server.shutdown()
        serving.join()


def test_a_storage_that_answers_anything_is_left_alone_and_reports_go_by_the_broker(storage, tmp_path, caplog):
    url, asked = storage
    broker = tmp_path / "broker"
    outbox = Outbox(node_app("filesystem://", broker), tmp_path / "spool", key="a key")
    for _ in range(3):
        outbox.deliver(a_delivery(), upload=Upload(url=url, key="k"))
    assert outbox.evaluations == (a_request().evaluation_id,) * 3, "the site hears that they are still at hand"
    outbox.start()
    wait_until(lambda: messages_in(broker) == 3, what=lambda: caplog.text, seconds=30)
    outbox.close()
    assert len(asked) == 1
    assert not list((tmp_path / "spool").glob("*.json"))


def test_signs_of_life_may_be_lost_without_harm(tmp_path):
    outbox = Outbox(node_app(CLOSED_PORT, tmp_path), tmp_path / "spool", key="a key")
    status = NodeStatus(node="a", key="k", slots=(), sandbox=SandboxLevel.NONE, backends=(), revisions={})
    outbox.send_status(status)
    assert not list((tmp_path / "spool").glob("*.json"))


def test_publishing_to_a_broker_that_is_down_ends_with_an_error(monkeypatch, tmp_path):
    app = Celery("test-site", set_as_current=False, fixups=[])
    app.conf.update(site_config(CLOSED_PORT, tmp_path))
    monkeypatch.setattr(messages, "app", app)
    done = []

    def send():
        with pytest.raises(messages.NotSent, match="alpha"):
            messages.send_assignment("alpha", Assignment(lease="l", slot=0, request=a_request()), valid_for_s=60)
        done.append(True)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    thread.join(60)
    assert done, "publishing still waits for the broker"


def environment(**changes):
    return {
        "PKB_DATA_DIR": "/nonexistent",
        "PKB_NODE_NAME": "alpha",
        "PKB_NODE_KEY": "pkn_x",
        "PKB_NODE_PROFILES": "cpux2, cpux4",
    } | changes


def test_a_node_reads_its_settings():
    settings = NodeSettings.from_environment(environment())
    assert (settings.name, settings.profiles) == ("alpha", ("cpux2", "cpux4"))
    assert settings.broker_url == "filesystem://"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"PKB_NODE_NAME": ""}, "PKB_NODE_NAME"),
        ({"PKB_NODE_KEY": ""}, "PKB_NODE_KEY"),
        ({"PKB_NODE_PROFILES": " , "}, "PKB_NODE_PROFILES"),
        ({"PKB_NODE_PROFILES": "cpux3"}, "cpux3"),
        ({"PKB_NODE_PROFILES": "h200x4-nomc,cpux2,h200x4-nomc"}, "PKB_NODE_GPUS"),
        ({"PKB_NODE_HEARTBEAT_SECONDS": "soon"}, "PKB_NODE_HEARTBEAT_SECONDS"),
        ({"PKB_NODE_HEARTBEAT_SECONDS": "0"}, "PKB_NODE_HEARTBEAT_SECONDS"),
        ({"PKB_NODE_GPUS": "0-3"}, "PKB_NODE_GPUS"),
        ({"PKB_NODE_USERS": "1000"}, "PKB_NODE_USERS"),
        ({"PKB_NODE_USERS": "2000-1000"}, "PKB_NODE_USERS"),
    ],
)
def test_a_node_with_a_nonsensical_setting_names_the_variable(changes, named):
    with pytest.raises(Misconfigured, match=named):
        NodeSettings.from_environment(environment(**changes))


def test_a_node_takes_from_the_sites_file_only_what_is_its_own(tmp_path):
    (tmp_path / "env").write_text(
        "PKB_SECRET_KEY=the site's\nPKB_NODE_NAME=local\nPKB_NODE_KEY=pkn_y\nPKB_NODE_PROFILES=cpux2\n"
        "PKB_NODE_GPUS=2, 3\n"
    )
    settings = NodeSettings.from_environment({"PKB_DATA_DIR": str(tmp_path), "PKB_NODE_NAME": "wins"})
    assert (settings.name, settings.key, settings.profiles) == ("wins", "pkn_y", ("cpux2",))
    assert settings.gpus == "2,3"
    assert "the site's" not in repr(settings)
