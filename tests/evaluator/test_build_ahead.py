"""Compiling before a slot is free: what slots find, what ends there, and what a node reports to the site."""

import shutil
import threading
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from evaluator.contract import (
    Backend,
    BuildOrder,
    Cancellation,
    Delivery,
    EvaluationRequest,
    Mode,
    SourceBundle,
    SourceFile,
    Verdict,
)
from evaluator.errors import Cancelled, EvaluatorError
from evaluator.hardware import profiles
from evaluator.host.build_ahead import BuildAhead, Builders
from evaluator.host.building.builder import Builder
from evaluator.host.sandbox import bubblewrap, doctor
from evaluator.host.settings import JudgeSettings
from evaluator.node.outbox import Outbox
from evaluator.node.settings import Misconfigured, NodeSettings
from evaluator.node.site import Site
from evaluator.node.worker import Node
from problems import registry
from tests.evaluator.test_builder import HEADER, claim, tiny_module

PROFILE = "h200x2-nomc"
DEADLINE_S = 120.0
pytestmark = [
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bubblewrap on this machine"),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return JudgeSettings(profile=PROFILE, work_dir=tmp_path_factory.mktemp("node"))


@pytest.fixture(scope="module")
def ahead(settings):
    ahead = BuildAhead(settings)
    yield ahead
    ahead.close()


def request_for(name, *, body="", mode=Mode.CHECK, extra=""):
    source = HEADER + (
        f"CUDA = r'''{tiny_module(name, body)}'''\n\n{extra}\n"
        f"def extension():\n    return compile_cuda_extension({name!r}, CUDA)\n\n"
        "def solution(tensor):\n    return extension().run(tensor)\n"
    )
    return EvaluationRequest(
        evaluation_id=name, problem="allgather", revision=registry.revision("allgather"),
        source=SourceBundle(files=(SourceFile(path="solution.py", text=source),)), backend=Backend.CUDA,
        profile=PROFILE, mode=mode,
    )  # fmt: skip


def in_a_slot(settings, request, tmp_path):
    """What a slot of the same node gets from its builder."""
    private = tmp_path / "survey"
    private.mkdir()
    bubblewrap.write_private(private)
    confinement = doctor.resolve(profiles.get(PROFILE), settings, private=private)
    return Builder(settings).build(request, workdir=tmp_path, sandbox=confinement)


def wait_until(condition, *, what):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, what
        threading.Event().wait(0.05)


def test_a_slot_finds_what_was_compiled_ahead_for_a_check_when_it_is_ranked(ahead, settings, tmp_path):
    assert ahead.build(request_for("ahead_one")) is None
    found = in_a_slot(settings, request_for("ahead_one", mode=Mode.RANKED), tmp_path)
    assert found.result.cached
    assert [Path(name).name for name in found.result.artefacts] == ["ahead_one.so"]


def test_a_compile_error_is_a_report_with_the_line_and_needs_no_slot(ahead):
    request = request_for("ahead_two", body="out[0] = missing_name;")
    report = ahead.build(request)
    assert report.verdict is Verdict.COMPILE_ERROR
    assert "missing_name" in report.message
    assert (report.source_digest, report.revision, report.mode) == (
        request.source.digest,
        request.revision,
        request.mode,
    )
    assert "missing_name" in report.build.log
    assert [finding.file for finding in report.findings] == ["solution.py"]
    assert [entry.stage for entry in report.stages] == ["building"]


def test_a_report_of_a_build_says_what_it_lacks(ahead):
    source = SourceBundle(files=(SourceFile(path="solution.py", text=claim("'x.cu(3): error: no\\n' * 20_000")),))
    report = ahead.build(replace(request_for("ahead_cut"), source=source))
    assert report.notes == ("the build printed more than is kept: its log lacks the middle",)


def test_what_has_nothing_to_compile_goes_on_to_a_slot(ahead):
    plain = EvaluationRequest(
        evaluation_id="e", problem="allgather", revision="r", backend=Backend.CUDA, profile=PROFILE, mode=Mode.CHECK,
        source=SourceBundle(files=(SourceFile(path="solution.py", text="def solution(tensor):\n    return tensor\n"),)),
    )  # fmt: skip
    assert ahead.build(plain) is None


def test_a_build_that_nobody_wants_any_more_ends_and_leaves_nothing(ahead, settings, tmp_path):
    endless = request_for("ahead_three", extra="while True:\n    pass\n")
    started = time.monotonic()
    with pytest.raises(Cancelled):
        ahead.build(endless, cancelled=lambda: time.monotonic() > started + 1)
    assert not list(Path(settings.work_dir).glob("pkb-judge-*/ahead-*"))
    assert ahead.build(request_for("ahead_four")) is None


# ---- the node -------------------------------------------------------------------------------------------------------


def no_judge(profile):
    raise EvaluatorError(f"no ranks for {profile} on this machine")


@pytest.fixture
def node(ahead, tmp_path):
    values = {
        "PKB_NODE_NAME": "alpha", "PKB_NODE_KEY": "pkn_k", "PKB_NODE_PROFILES": PROFILE, "PKB_NODE_BUILDERS": "2",
        "PKB_DATA_DIR": str(tmp_path),
    }  # fmt: skip
    settings = NodeSettings.from_environment(values)
    builders = Builders(settings.builders, make=lambda: ahead)
    builders.prepare()
    return Node(
        settings,
        Outbox(Site("http://127.0.0.1:1", name="alpha", key="pkn_k"), settings.spool_dir),
        make_judge=no_judge,
        builders=builders,
    )


@pytest.fixture
def delivered(node, tmp_path):
    """What the node has delivered; its outbox keeps reports on disk until they are sent, and is not started here."""
    return lambda: [Delivery.from_json(path.read_text()) for path in (tmp_path / "spool" / "alpha").glob("*.json")]


def order_for(name, **changes):
    return BuildOrder(lease=f"lease-{name}", request=request_for(name, **changes))


def test_a_node_reports_that_something_is_compiled_until_the_site_has_received_it(node, delivered):
    assert (node.status.builders, node.status.built) == (2, ())
    node.build(order_for("told_one"))
    status = node.status
    assert (status.built, status.running) == (("lease-told_one",), ())
    assert node.status.built == ("lease-told_one",)
    assert not delivered()


def test_a_node_delivers_a_compile_error_under_its_lease(node, delivered):
    node.build(order_for("told_two", body="out[0] = missing_name;"))
    [delivery] = delivered()
    assert (delivery.lease, delivery.report.verdict) == ("lease-told_two", Verdict.COMPILE_ERROR)
    assert not delivery.is_returned
    assert node.status.built == ()
    assert node.status.running == ("told_two",), "until the report is sent, its lease has to last"


def test_a_build_that_was_cancelled_before_it_arrived_is_not_begun(node, delivered):
    node.cancel(Cancellation(lease="lease-told_three", evaluation_id="told_three"))
    node.build(order_for("told_three"))
    assert (delivered(), node.status.built) == ([], ())


def test_a_cancelled_build_ends_and_says_nothing(node, delivered):
    order = order_for("told_four", extra="while True:\n    pass\n")
    building = threading.Thread(target=node.build, args=(order,))
    building.start()
    wait_until(lambda: node.status.running == ("told_four",), what="the build is told to run")
    node.cancel(Cancellation(lease=order.lease, evaluation_id="told_four"))
    building.join(DEADLINE_S)
    assert not building.is_alive()
    assert (delivered(), node.status.built, node.status.running) == ([], (), ())


def test_a_stopped_node_gives_its_builds_back_and_offers_none(node, delivered):
    building = threading.Thread(target=node.build, args=(order_for("told_five", extra="while True:\n    pass\n"),))
    building.start()
    wait_until(lambda: node.status.running == ("told_five",), what="the build is told to run")
    node.stop()
    building.join(DEADLINE_S)
    [delivery] = delivered()
    assert (delivery.is_returned, delivery.report.verdict) == (True, Verdict.JUDGE_FAILURE)
    assert node.status.builders == 0


def test_a_node_whose_machine_cannot_confine_a_build_offers_none():
    builders = Builders(2, make=lambda: no_judge(PROFILE))
    builders.prepare()
    assert builders.offered == 0


@pytest.mark.parametrize("value", ["many", "-1", "65"])
def test_a_wrong_number_of_builders_is_refused_with_its_variable(tmp_path, value):
    values = {
        "PKB_NODE_NAME": "alpha", "PKB_NODE_KEY": "k", "PKB_NODE_PROFILES": "cpux2", "PKB_DATA_DIR": str(tmp_path),
        "PKB_NODE_BUILDERS": value,
    }  # fmt: skip
    with pytest.raises(Misconfigured, match=f"PKB_NODE_BUILDERS={value}"):
        NodeSettings.from_environment(values)
