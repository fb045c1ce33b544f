"""The folder broker, and what happens when a broker takes nothing."""

import threading

import pytest
from celery import Celery
from kombu import Connection

from evaluator.broker import site_config
from evaluator.contract import (
    Assignment,
    Backend,
    EvaluationRequest,
    Mode,
)
from evaluator.node.settings import Misconfigured, NodeSettings
from portal.nodes import actions
from tests.portal.factories import bundle

CLOSED_PORT = "redis://127.0.0.1:1/0"


def connection_to(folder):
    config = site_config("filesystem://", folder)
    return Connection(config["broker_url"], transport_options=config["broker_transport_options"])


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


def test_messages_come_in_the_order_of_sending_and_once(tmp_path):
    with connection_to(tmp_path) as connection:
        queue = connection.SimpleQueue("portal")
        for number in range(5):
            queue.put({"number": number})
    with connection_to(tmp_path) as connection:
        queue = connection.SimpleQueue("portal")
        received = []
        for _ in range(5):
            message = queue.get(timeout=60)
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


def test_publishing_to_a_broker_that_is_down_ends_with_an_error(monkeypatch, tmp_path):
    app = Celery("test-site", set_as_current=False, fixups=[])
    app.conf.update(site_config(CLOSED_PORT, tmp_path))
    monkeypatch.setattr(actions, "app", app)
    done = []

    def send():
        with pytest.raises(actions.NotSent, match="alpha"):
            actions.send_work("alpha", Assignment(lease="l", slot=0, request=a_request()), valid_for_s=60)
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
    assert (settings.broker_url, settings.site_url) == ("filesystem://", "http://127.0.0.1:8000")


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
        ({"PKB_SITE_URL": "pkb.example.org"}, "PKB_SITE_URL"),
        ({"PKB_SITE_URL": "https://[pkb"}, "PKB_SITE_URL"),
        ({"PKB_BROKER_URL": "amqp://host:5672/pkb"}, "PKB_BROKER_URL begins with amqp:"),
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
        "PKB_NODE_GPUS=2, 3\nPKB_SITE_URL=https://lab.example.org/pkb\n"
    )
    settings = NodeSettings.from_environment({"PKB_DATA_DIR": str(tmp_path), "PKB_NODE_NAME": "wins"})
    assert (settings.name, settings.key, settings.profiles) == ("wins", "pkn_y", ("cpux2",))
    assert (settings.gpus, settings.site_url) == ("2,3", "https://lab.example.org/pkb")
    assert "the site's" not in repr(settings)
