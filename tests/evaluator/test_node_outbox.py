"""A node's messages to a site that is away, refuses, lies or answers in another's name: no report is lost by it."""

import functools
import gzip
import hashlib
import json
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from evaluator.contract import (
    MOST_COMPRESSED_BYTES,
    MOST_REPORT_BYTES,
    Assignment,
    Backend,
    BuildOrder,
    ContractError,
    Delivery,
    EvaluationRequest,
    Mode,
    NodeStatus,
    Progress,
    RankState,
    SandboxLevel,
    SlotState,
    SourceBundle,
    SourceFile,
    Stage,
    StageTime,
    Verdict,
)
from evaluator.host.build_ahead import Builders
from evaluator.node.outbox import Outbox
from evaluator.node.report_size import fitted
from evaluator.node.settings import NodeSettings
from evaluator.node.site import Site, packed
from evaluator.node.slots import failure_report
from evaluator.node.spool import Spool, refusals
from evaluator.node.worker import Node
from tests.stack import wait_until

AWAY = "http://127.0.0.1:1"


def a_request():
    return EvaluationRequest(
        evaluation_id="00000000-0000-0000-0000-000000000001",
        problem="allreduce",
        revision="0123456789abcdef",
        source=SourceBundle(files=(SourceFile(path="solution.py", text="def solution(): ..."),)),
        backend=Backend.PYTORCH,
        profile="cpux2",
        mode=Mode.CHECK,
    )


@functools.cache  # a report names the second in which it was made
def a_delivery(lease="secret lease"):
    return Delivery(lease=lease, node="alpha", report=failure_report(a_request(), "for the test"))


def a_status():
    return NodeStatus(node="alpha", slots=(), sandbox=SandboxLevel.NONE, backends=(), revisions={})


class Listener(ThreadingHTTPServer):
    """A site that keeps what it is sent and answers as it is told: `answer` takes a kind and a text."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.heard: list[tuple[str, str]] = []
        self.keys: set[str] = set()
        self.paths: set[str] = set()
        self.answer = lambda _kind, text: (200, receipt(text))

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def reports(self):
        return [Delivery.from_json(text) for kind, text in list(self.heard) if kind == "report"]


class _Handler(BaseHTTPRequestHandler):
    server: Listener

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        text = gzip.decompress(body).decode()
        kind = self.path.strip("/").rpartition("/")[2]
        self.server.paths.add(self.path)
        self.server.keys.add(self.headers["Authorization"])
        status, content = self.server.answer(kind, text)
        # Once it is decided, so that a test that has seen the message knows the answer.
        self.server.heard.append((kind, text))
        if status is None:
            return  # the connection ends without an answer
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", "https://elsewhere.example.org/")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def receipt(text):
    return json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest()}).encode()


def problem(detail):
    return json.dumps({"detail": detail, "request_id": "1", "errors": []}).encode()


@pytest.fixture
def listener():
    with Listener() as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        serving.start()
        yield server
        server.shutdown()
        serving.join()


@pytest.fixture
def spool(tmp_path):
    return tmp_path / "spool"


@pytest.fixture
def outbox(listener, spool):
    box = Outbox(Site(listener.url, name="alpha", key="pkn_k"), spool)
    yield box
    box.close()


def waiting(spool: Path) -> list[Path]:
    return list(spool.glob("*.json"))


def test_a_report_waits_on_disk_until_the_site_has_it_and_survives_a_new_process(listener, spool):
    first = Outbox(Site(AWAY, name="alpha", key="pkn_old"), spool)
    first.start()
    first.deliver(a_delivery())
    assert first.spool.evaluations == (a_request().evaluation_id,), "the lease is renewed until the site has it"
    first.close()
    assert len(waiting(spool)) == 1
    second = Outbox(Site(listener.url, name="alpha", key="pkn_new"), spool)
    second.start()
    wait_until(lambda: not list(spool.iterdir()), what="the report is received", seconds=30)
    second.close()
    assert listener.reports() == [a_delivery()]
    assert (listener.keys, listener.paths) == ({"Bearer pkn_new"}, {"/api/v1/nodes/alpha/report/"})


def test_a_site_on_this_machine_is_reached_without_the_proxy_for_the_way_out(listener, spool, monkeypatch):
    monkeypatch.setenv("http_proxy", AWAY)
    box = Outbox(Site(listener.url, name="alpha", key="pkn_k"), spool)
    box.send_status(a_status())
    assert (box.site.failure, len(listener.heard)) == ("", 1)


def test_a_site_may_be_behind_a_path(listener, spool):
    Outbox(Site(f"{listener.url}/pkb/", name="alpha", key="pkn_k"), spool).send_status(a_status())
    assert listener.paths == {"/pkb/api/v1/nodes/alpha/heartbeat/"}


def test_a_report_whose_answer_is_lost_is_sent_again_as_it_was(outbox, listener, spool):
    listener.answer = lambda _kind, text: (None, b"") if not listener.heard else (200, receipt(text))
    outbox.deliver(a_delivery())
    outbox.start()
    wait_until(lambda: not waiting(spool), what="the report is received", seconds=30)
    assert listener.reports() == [a_delivery()] * 2
    assert outbox.spool.evaluations == ()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((503, b"the proxy has no upstream"), "answered 503"),
        ((404, b"<h1>Not Found</h1>"), "is PKB_SITE_URL the site's address"),
        ((404, problem("There is nothing at this address.")), "answered 404 There is nothing at this address."),
        ((403, b"a firewall's page"), "does a proxy between let nodes pass"),
        ((401, problem("This is not the key.")), "does not take this node's key: This is not the key."),
        ((301, b""), "redirects to https://elsewhere.example.org/"),
        ((200, b"<h1>Welcome to our hotel</h1>"), "what answers at PKB_SITE_URL is not the site"),
        ((200, receipt("another message")), "receipt is for another message"),
        ((None, b""), "cannot be reached"),
    ],
)
def test_whatever_is_no_answer_of_the_site_leaves_the_report_waiting(outbox, listener, spool, answer, words):
    listener.answer = lambda _kind, _text: answer
    outbox.deliver(a_delivery())
    outbox.start()
    wait_until(lambda: outbox.site.failure, what="the node knows", seconds=30)
    assert words in outbox.site.failure
    assert len(waiting(spool)) == 1
    assert not outbox.refusals()


def test_a_refused_report_is_kept_with_its_reason_and_the_next_ones_pass(outbox, listener, spool):
    def answer(_kind, text):
        is_odd = Delivery.from_json(text).lease == "odd"
        return (409, problem("This site never gave such a lease.")) if is_odd else (200, receipt(text))

    listener.answer = answer
    for lease in ("odd", "even"):
        outbox.deliver(a_delivery(lease))
    outbox.start()
    wait_until(lambda: not waiting(spool), what="one is refused, one received", seconds=30)
    [kept] = spool.glob("*.refused")
    assert Delivery.from_json(kept.read_text()).lease == "odd"
    assert outbox.refusals() == refusals(spool) == [f"{kept}: This site never gave such a lease."]
    assert outbox.spool.evaluations == ()


def test_an_evaluation_whose_report_is_not_understood_does_not_wait_for_its_lease(outbox, listener, spool):
    """The site is told once that there is none; what an older version wrote is kept and no more."""

    def answer(_kind, text):
        is_taken = '"odd"' not in text or '"verdict":"JUDGE_FAILURE"' in text
        return (200, receipt(text)) if is_taken else (422, problem("It has an unknown field."))

    listener.answer = answer
    passed = msgspec.structs.replace(a_delivery("odd").report, verdict=Verdict.WRONG_RESULT)
    outbox.deliver(msgspec.structs.replace(a_delivery("odd"), report=passed))
    Spool(spool).write("an evaluation", '{"lease": "odd", "version": 0}')
    outbox.start()
    wait_until(lambda: not waiting(spool), what="both are refused, and the failure is received", seconds=30)
    [told] = [Delivery.from_json(text) for _, text in listener.heard if "JUDGE_FAILURE" in text]
    assert (told.lease, told.report.evaluation_id) == ("odd", passed.evaluation_id)
    assert told.report.message == "The site refused the report. It has an unknown field."
    assert len(list(spool.glob("*.refused"))) == 2


def test_a_failure_that_is_refused_is_not_told_again(outbox, listener, spool):
    listener.answer = lambda _kind, _text: (422, problem("It is about something else."))
    outbox.deliver(a_delivery())
    outbox.start()
    wait_until(lambda: not waiting(spool), what="it is refused", seconds=30)
    assert listener.reports() == [a_delivery()]


def test_a_report_that_the_site_fails_on_does_not_hold_up_the_others(outbox, listener, spool):
    def answer(_kind, text):
        is_odd = Delivery.from_json(text).lease.startswith("odd")
        return (500, problem("The site failed.")) if is_odd else (200, receipt(text))

    listener.answer = answer
    for lease in ("odd 1", "odd 2", "odd 3", "even"):
        outbox.deliver(a_delivery(lease))
    outbox.start()
    wait_until(lambda: "even" in {each.lease for each in listener.reports()}, what="the even one", seconds=60)
    wait_until(lambda: len(waiting(spool)) == 3, what="the odd ones stay", seconds=30)


def test_of_a_report_that_is_too_large_for_a_proxy_the_verdict_arrives(outbox, listener, spool):
    most = 100_000
    listener.answer = lambda _kind, text: (413, b"") if len(text) > most else (200, receipt(text))
    outbox.deliver(with_ranks(a_delivery(), 2 * most))
    outbox.start()
    wait_until(lambda: not waiting(spool), what="the verdict", seconds=30)
    verdict = listener.reports()[-1].report
    assert "everything but the verdict" in verdict.notes[-1]
    [kept] = spool.glob("*.refused")
    assert Delivery.from_json(kept.read_text()).report.ranks, "the operator has the evidence"


def test_a_revoked_node_knows_and_keeps_its_reports(outbox, listener, spool):
    listener.answer = lambda _kind, _text: (410, problem("Node alpha was revoked."))
    outbox.deliver(a_delivery())
    outbox.send_status(a_status())
    assert outbox.is_revoked
    assert "Node alpha was revoked." in outbox.site.failure
    outbox.start()
    wait_until(listener.reports, what="it is tried", seconds=30)
    assert len(waiting(spool)) == 1


def test_a_revoked_node_takes_no_more_work(outbox, listener, spool, tmp_path):
    values = {"PKB_NODE_NAME": "alpha", "PKB_NODE_KEY": "pkn_k", "PKB_NODE_PROFILES": "cpux2", "PKB_DATA_DIR": tmp_path}
    builders = Builders(0, make=lambda: pytest.fail("it builds nothing"))
    node = Node(
        NodeSettings.from_environment({name: str(value) for name, value in values.items()}),
        outbox,
        make_judge=lambda _profile: pytest.fail("it judges nothing"),
        builders=builders,
    )
    listener.answer = lambda _kind, _text: (410, problem("Node alpha was revoked."))
    outbox.send_status(node.status)
    node.judge(Assignment(lease="one", slot=0, request=a_request()))
    node.build(BuildOrder(lease="two", request=a_request()))
    assert [slot.state for slot in node.status.slots] == [SlotState.STOPPED]
    assert not waiting(spool)
    assert listener.reports() == []


def test_a_report_waits_behind_no_heartbeat(outbox, listener, spool):
    """The site holds a heartbeat back until the report is there."""
    reported = threading.Event()

    def answer(kind, text):
        if kind == "heartbeat":
            assert reported.wait(30)
        else:
            reported.set()
        return 200, receipt(text)

    listener.answer = answer
    outbox.start()
    beating = threading.Thread(target=outbox.send_status, args=(a_status(),))
    beating.start()
    outbox.deliver(a_delivery())
    beating.join(30)
    assert [kind for kind, _ in listener.heard][-1] == "heartbeat"
    assert listener.reports()


def test_of_progress_the_newest_of_each_evaluation_is_sent(outbox, listener):
    def progress(lease, stage):
        return Progress(evaluation_id=a_request().evaluation_id, lease=lease, stage=stage)

    for stage in (Stage.PREPARING, Stage.BUILDING, Stage.TIMING):
        outbox.send_progress(progress("one", stage))
    outbox.send_progress(progress("two", Stage.BUILDING))
    outbox.start()
    wait_until(lambda: len(listener.heard) == 2, what="both", seconds=30)
    said = [Progress.from_json(text) for _, text in listener.heard]
    assert {(each.lease, each.stage) for each in said} == {("one", Stage.TIMING), ("two", Stage.BUILDING)}


def test_signs_of_life_may_be_lost_and_their_refusal_is_noted(outbox, listener):
    listener.answer = lambda _kind, _text: (422, problem("NodeStatus has an unknown field."))
    outbox.send_status(a_status())
    assert outbox.refusals() == ["heartbeat: NodeStatus has an unknown field."]


def test_a_report_that_the_disk_does_not_take_is_sent_at_once(outbox, listener, spool, caplog):
    # As with a full disk, nothing can be written there.
    spool.rmdir()
    spool.write_text("a file where the spool folder should be")
    outbox.deliver(a_delivery())
    assert listener.reports() == [a_delivery()]
    assert f"the spool folder {spool} takes no report" in caplog.text
    listener.answer = lambda _kind, _text: (503, b"")
    with pytest.raises(OSError, match="neither"):
        outbox.deliver(a_delivery())


def test_damaged_files_in_the_spool_do_not_keep_reports_from_the_site(outbox, listener, spool):
    """As after a power failure: half a report, one that is another's, a folder."""
    (spool / f"{'0' * 64}.json").write_bytes(b'{"lease":"\xc3')
    (spool / f"{'1' * 64}.json").write_text('{"of":"another version"}')
    (spool / "folder.json").mkdir()
    outbox.deliver(a_delivery())
    [kept] = [path for path in waiting(spool) if path.stem not in ("0" * 64, "1" * 64, "folder")]
    outbox.start()
    wait_until(listener.reports, what="the whole one arrives", seconds=30)
    wait_until(lambda: not kept.exists(), what="its receipt", seconds=30)
    assert sorted(path.name[:2] for path in spool.glob("*.refused")) == ["00", "11"]
    assert all("damaged on the disk" in text for text in outbox.refusals())


def with_ranks(delivery, characters, *, character="x"):
    state = RankState(rank=0, exit="exit 0", phase="in call 1", calls_done=1, log=character * characters)
    return msgspec.structs.replace(delivery, report=msgspec.structs.replace(delivery.report, ranks=(state,)))


def test_a_report_over_the_limit_loses_evidence_and_keeps_its_verdict():
    huge = with_ranks(a_delivery(), 20_000_000)
    small = fitted(huge)
    assert len(small.to_json()) <= MOST_REPORT_BYTES
    assert (small.report.verdict, small.report.message) == (huge.report.verdict, huge.report.message)
    assert small.report.notes[-1].endswith("most of what ranks printed")
    whole = a_delivery()
    assert fitted(whole) is whole
    for most_bytes in (0, 1_000, 10_000):
        assert fitted(huge, most_bytes=most_bytes).report.verdict is huge.report.verdict


def test_a_report_that_does_not_compress_loses_evidence_as_well():
    noise = secrets.token_hex(4_100_000)
    ranks = tuple(
        RankState(rank=rank, exit="exit 0", phase="in call 1", calls_done=1, log=noise[rank::2]) for rank in range(2)
    )
    delivery = a_delivery()
    small = fitted(msgspec.structs.replace(delivery, report=msgspec.structs.replace(delivery.report, ranks=ranks)))
    assert small.report.notes[-1].endswith("most of what ranks printed")
    assert len(packed(small.to_json().encode())) <= MOST_COMPRESSED_BYTES


def test_the_nodes_own_log_does_not_make_a_report_too_large():
    long = msgspec.structs.replace(a_delivery(), error_log="\0" * 20_000_000)
    assert len(fitted(long).to_json()) < MOST_REPORT_BYTES


def test_a_report_that_the_site_could_not_read_is_not_sent(outbox, spool):
    """JSON has no infinity: the number becomes null, and the site would refuse the report as malformed."""
    stages = (StageTime(stage=Stage.BUILDING, seconds=float("inf")),)
    delivery = a_delivery()
    endless = msgspec.structs.replace(delivery, report=msgspec.structs.replace(delivery.report, stages=stages))
    with pytest.raises(ContractError, match="stages"):
        outbox.deliver(endless)
    assert not list(spool.iterdir())
