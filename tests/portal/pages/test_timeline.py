"""Inside one call: the timeline on pages, as a trace, as data, and beside another submission's."""

import json
import re

import msgspec
import pytest
from django.urls import reverse

from evaluator.contract import (
    CallKind,
    CallRecord,
    CallTimeline,
    Detection,
    EvaluationReport,
    EvidenceSource,
    LinkTraffic,
    Mode,
    Primitive,
    Record,
    SizeRecord,
    SizeResult,
    SpanKind,
    Timeline,
    WorkName,
)
from evaluator.hardware import profiles
from evaluator.judging import occupancy
from portal.api.submission_outputs import SplitOutput
from portal.submissions.reports import timelines
from portal.submissions.reports.timelines import NO_COUNTERS, link_rows
from problems import registry
from tests.evaluator.timelines import GEMM, NCCL, OWN, PEER_COPY, SYNCHRONISE, call
from tests.portal.pages import scenes
from tests.portal.pages.test_report_evidence import cells, deliver
from tests.portal.pages.test_submission_page import page_of

REFERENCE = call(
    [(SpanKind.KERNEL, GEMM, 0, 60), (SpanKind.KERNEL, NCCL, 60, 80)],
    [(SpanKind.KERNEL, GEMM, 0, 60), (SpanKind.KERNEL, NCCL, 60, 80)],
)
SUBMISSION = call(
    [(SpanKind.KERNEL, GEMM, 0, 60), (SpanKind.COPY, PEER_COPY, 30, 60), (SpanKind.WAIT, SYNCHRONISE, 95, 5)],
    [(SpanKind.KERNEL, GEMM, 5, 60), (SpanKind.COPY, PEER_COPY, 35, 60), (SpanKind.KERNEL, NCCL, 95, 10)],
    lanes={SpanKind.COPY: 1},
)
TIMELINE = Timeline(size="tiny", submission=SUBMISSION, reference=REFERENCE)


def split_rows(page: str) -> list[str]:
    return cells(page, "Where the time went")


@pytest.fixture
def recorded(alice, local):
    """A submission whose call was recorded, and the reference's."""
    submission = scenes.submit(alice)
    deliver(submission, local, timeline=TIMELINE)
    return submission


def test_the_page_shows_where_the_time_went_on_every_rank(as_alice, recorded):
    page = page_of(as_alice, recorded)
    # A cell's bar says the same when it is pointed at.
    figures = [
        re.sub(r"(compute|wire|neither|both|at once|and)[a-z ]*: [\d.]+ us ", "", row) for row in split_rows(page)
    ]
    assert figures == [
        "Reference, rank 0 140 µs 60.0 µs 0 µs 80.0 µs 0 µs 0 µs 0 µs 0 %",
        "Reference, rank 1 140 µs 60.0 µs 0 µs 80.0 µs 0 µs 0 µs 0 µs 0 %",
        "Submission, rank 0 105 µs 30.0 µs 30.0 µs 30.0 µs 0 µs 0 µs 15.0 µs 50 %",
        "Submission, rank 1 105 µs 30.0 µs 30.0 µs 40.0 µs 0 µs 0 µs 5.00 µs 43 %",
    ]
    assert "Rank 1 moves data for 70 us of 105 us" in page
    assert "so it affects neither score nor verdict" in page
    # Every span says what it is, once: the picture for phones refers to the marks of the wide one.
    assert page.count("Memcpy PtoP (Device -&gt; Device): 60.00 us from 30.00 us, 6,000,000 bytes (wire)") == 1


def test_kernels_are_listed_with_their_launch(as_alice, recorded):
    rows = cells(page_of(as_alice, recorded), "Kernels, copies and operators")
    assert rows[0].startswith("cutlass::Kernel2 compute 0 1 60.0 µs 132×1×1 of 384×1×1 168 208 KiB")  # noqa: RUF001
    assert [row[:6] for row in rows] == ["cutlas", "Memcpy", "ncclDe"]


def test_names_from_ranks_are_text_on_the_page_and_in_the_trace(as_alice, alice, local):
    hostile = '<script>alert(1)</script>"><img src=x>'
    submission = scenes.submit(alice)
    deliver(submission, local, timeline=Timeline(size="tiny", submission=call([(SpanKind.KERNEL, hostile, 0, 9)])))
    page = page_of(as_alice, submission)
    assert "<script>alert" not in page
    assert "<img" not in page
    trace = as_alice.get(reverse("submissions:trace", args=[submission.evaluations.get().pk])).json()
    assert hostile in {event["name"] for event in trace["traceEvents"]}


def test_the_trace_has_every_rank_of_both_programs_as_a_process(as_alice, recorded):
    response = as_alice.get(reverse("submissions:trace", args=[recorded.evaluations.get().pk]))
    assert response["Content-Type"] == "application/json"
    assert ".json" in response["Content-Disposition"]
    events = response.json()["traceEvents"]
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert list(processes.values()) == [
        "Reference, rank 0",
        "Reference, rank 1",
        "Submission, rank 0",
        "Submission, rank 1",
    ]
    drawn = [event for event in events if event["ph"] == "X"]
    assert len(drawn) == 10
    assert all(isinstance(event["ts"], int | float) and event["dur"] > 0 for event in drawn)
    copies = [event for event in drawn if event["cat"] == "copy"]
    assert {(processes[event["pid"]], event["ts"], event["dur"]) for event in copies} == {
        ("Submission, rank 0", 30, 60),
        ("Submission, rank 1", 35, 60),
    }


def test_without_a_recording_the_page_has_no_section_and_the_trace_is_not_found(as_alice, alice, local):
    submission = scenes.judged(alice, local)
    assert "Inside one call" not in page_of(as_alice, submission)
    response = as_alice.get(reverse("submissions:trace", args=[submission.evaluations.get().pk]))
    assert response.status_code == 404
    assert "No call of this evaluation was recorded" in response.content.decode()


def test_a_private_submissions_trace_is_its_authors(client, bob, recorded):
    address = reverse("submissions:trace", args=[recorded.evaluations.get().pk])
    assert client.get(address).status_code == 404
    client.force_login(bob)
    assert client.get(address).status_code == 404


def test_the_api_has_the_split_and_the_trace_apart_from_the_report(as_alice, recorded):
    evaluation = recorded.evaluations.get()
    body = as_alice.get(reverse("api:evaluation", args=[recorded.pk, evaluation.pk])).json()
    assert body["report"]["timeline"] is None
    split = body["split"]
    assert split["size"] == "tiny"
    assert split["submission"]["largest_gap"] == "wire"
    assert split["submission"]["advice"].startswith("Rank 1 moves data for 70 us of 105 us")
    assert split["reference"]["gaps_us"] == {"idle": 0, "wait": 0, "wire": 80, "work": 60, "mixed": 0}
    assert split["submission"]["ranks"][0]["overlap"] == 0.5
    trace = as_alice.get(split["trace_url"]).json()
    assert trace["otherData"]["evaluation"] == str(evaluation.pk)


def test_the_downloaded_report_has_the_whole_timeline(as_alice, recorded):
    body = as_alice.get(reverse("submissions:report", args=[recorded.evaluations.get().pk])).json()
    assert len(body["timeline"]["submission"]["ranks"][0]["spans"]) == 3


def test_two_submissions_stand_under_each_other(as_alice, alice, local, recorded):
    newer = scenes.submit(alice)
    deliver(newer, local, timeline=Timeline(size="tiny", submission=REFERENCE))
    page = as_alice.get(reverse("submissions:compare", args=[newer.pk], query={"with": recorded.pk})).content.decode()
    assert [row[:10].strip() for row in split_rows(page)] == ["Before, ra", "Before, ra", "Now, rank", "Now, rank"]
    page = as_alice.get(reverse("submissions:compare", args=[newer.pk], query={"with": "reference"})).content.decode()
    assert "Submission, rank 0" in page


def test_only_calls_of_one_size_stand_beside_each_other(alice):
    now = gpu_report(alice, "h200x2-nomc")
    before = msgspec.structs.replace(now, timeline=Timeline(size="base", submission=SUBMISSION))
    elsewhere = msgspec.structs.replace(now, profile="h200x4-nomc")
    reports = {"Attempt 1": before, "Attempt 2": elsewhere, "Attempt 3": now}
    assert list(timelines.comparable(reports)) == ["Attempt 3"]
    assert [call.title for call in timelines.beside_each_other(reports)] == ["Attempt 3"]


def test_bytes_over_the_links_stand_side_by_side(alice):
    counted = LinkTraffic(calls=2, least_bytes=1000.0, sent_bytes=(1024, 2048), received_bytes=(2048, 1024))
    reports = {"Before": gpu_report(alice, "h200x2-nomc"), "Now": gpu_report(alice, "h200x2-nomc", links=counted)}
    rows = link_rows(reports)
    assert [tuple(row[name] for name in ("title", "rank", "sent_bytes", "received_bytes")) for row in rows] == [
        ("Before", 0, None, None),
        ("Before", 1, None, None),
        ("Now", 0, 1024, 2048),
        ("Now", 1, 2048, 1024),
    ]
    assert {row["why"] for row in rows[:2]} == {NO_COUNTERS}


def test_a_picture_has_the_longest_spans_and_says_how_many_it_leaves_out(as_alice, alice, local):
    many = call([(SpanKind.KERNEL, GEMM, 10 * number, 1 + number % 7) for number in range(1400)])
    submission = scenes.submit(alice)
    deliver(submission, local, timeline=Timeline(size="tiny", submission=many))
    page = page_of(as_alice, submission)
    assert "1200 short spans are only in the trace" in page
    assert page.count("<title>") <= 200 + 30


def test_kernels_that_reach_peers_are_distinguished_where_something_shows_that_they_can(as_alice, alice, local):
    own = call([(SpanKind.KERNEL, OWN, 0, 50)], [(SpanKind.KERNEL, OWN, 0, 50)])
    seen = Detection(primitive=Primitive.SM_LOAD_STORE, evidence=EvidenceSource.COMPILED, detail="LD.E.STRONG.SYS")
    submission = scenes.submit(alice)
    deliver(submission, local, timeline=Timeline(size="tiny", submission=own), primitives=(seen,))
    assert "is in the submission&#x27;s own kernels for 50 us of 50 us" in page_of(as_alice, submission)


def test_on_a_gpu_profile_the_floor_stands_beside_the_split(alice):
    size = SizeResult(size="base", dims=registry.get("allreduce").dims("base", 2), calls=1, checked_calls=1)
    evaluation = scenes.submit(alice, profile="h200x2-nomc").evaluations.get()
    timeline = Timeline(size="base", submission=SUBMISSION)
    report = msgspec.structs.replace(scenes.report(evaluation), sizes=(size,), timeline=timeline)
    least = timelines.least_work(report)
    assert least is not None
    assert least.wire_us > 0
    calls = timelines.recorded_calls(report)
    assert "at the link's rate need" in calls[0].split.advice
    picture = timelines.picture(calls, least=least)
    assert picture["wide"].index(">Floor<") < picture["wide"].index(">Submission, rank 0<")
    assert f"wire: {least.wire_us:,.2f} us at least" in picture["wide"]
    assert picture["length_ns"] >= least.wire_us * 1000


def test_where_ranks_share_a_gpu_nobody_is_advised_by_how_long_the_recorded_call_took(as_alice, alice, local):
    submission = scenes.submit(alice, profile="gpu1r2")
    deliver(submission, local, timeline=TIMELINE)

    page = page_of(as_alice, submission)

    assert "share one GPU and take turns" in page
    assert "moves data for 70 us of 105 us" not in page


def test_a_recorded_call_that_took_longer_than_usual_ones_is_split_without_the_difference(alice):
    made = scenes.report(scenes.submit(alice, profile="h200x2-nomc").evaluations.get())
    usual_us = next(size.candidate.median_us for size in made.timing.sizes if size.size == "large")
    pauses = call([(SpanKind.KERNEL, GEMM, 0, 60), (SpanKind.KERNEL, GEMM, 90_000, 60)])
    size = SizeResult(size="large", dims=registry.get("allreduce").dims("large", 2), calls=1, checked_calls=1)
    report = msgspec.structs.replace(made, sizes=(size,), timeline=Timeline(size="large", submission=pauses))
    (recorded,) = timelines.recorded_calls(report)
    assert (recorded.usual_us, recorded.is_slowed) == (usual_us, True)
    assert recorded.split.surplus_us == pytest.approx(90_060 - usual_us)
    assert SplitOutput(recorded).data["usual_us"] == usual_us


def made_call(number: int, us: int, kind: CallKind) -> CallRecord:
    return CallRecord(
        number=number,
        kind=kind,
        draw=number,
        near=None,
        is_reused=False,
        is_checked=True,
        delays_us=(0, 0),
        done_ns=(us * 1000, us * 1000),
        head_ns=0,
        has_queued=True,
        claimed_ns=(0, 0),
        marks=("", ""),
        max_error=None,
    )


def test_in_mode_profile_the_recorded_call_is_compared_with_usual_ones_on_the_hosts_clock(alice):
    # Both hold 100 us that the judge queues around the program; the recorded call took 60 us more.
    calls = [made_call(1, 190, CallKind.PLAIN), made_call(2, 190, CallKind.PLAIN), made_call(3, 250, CallKind.RECORDED)]
    pauses = call([(SpanKind.KERNEL, GEMM, 0, 60), (SpanKind.KERNEL, GEMM, 90, 60)])
    report = gpu_report(alice, "h200x2-nomc", submission=pauses, calls=calls)
    (recorded,) = timelines.recorded_calls(report)
    assert (recorded.usual_us, recorded.split.surplus_us) == (90, 60)


def test_the_table_of_a_gpus_call_has_what_ran_on_the_device(alice):
    spans = [(SpanKind.OPERATOR, "aten::mm", 0, 500), (SpanKind.KERNEL, GEMM, 10, 60)]
    (recorded,) = timelines.recorded_calls(gpu_report(alice, "h200x2-nomc", submission=call(spans)))
    assert [row["name"] for row in timelines.kernel_rows(recorded)] == [GEMM]


def test_an_occupancy_that_the_profiler_lacks_follows_from_the_launch():
    gemm = WorkName(name=GEMM, grid=(2, 66, 1), block=(384, 1, 1), registers=168, shared_bytes=213_188)
    assert occupancy.estimate(gemm, gpu="H200") == 12 / 64
    small = WorkName(name=OWN, grid=(2048, 1, 1), block=(256, 1, 1), registers=30)
    assert occupancy.estimate(small, gpu="H100") == 1.0
    assert occupancy.estimate(small, gpu="B200") is None
    assert occupancy.estimate(msgspec.structs.replace(small, block=(2**31, 9, 9)), gpu="H200") is None


def gpu_report(
    alice, profile: str, *, submission: CallTimeline = SUBMISSION, links: LinkTraffic | None = None, calls=()
) -> EvaluationReport:
    """A report in mode profile, with these calls and links at its recorded size."""
    made = scenes.report(scenes.submit(alice, profile=profile).evaluations.get())
    world_size = profiles.get(profile).world_size
    rules = profiles.get(profile).timing_rules()
    record = Record(
        rules=rules, sizes=(SizeRecord(size="large", payload_bytes=0, floor_us=None, calls=tuple(calls), links=links),)
    )
    timeline = Timeline(size="large", submission=submission)
    return msgspec.structs.replace(
        made, world_size=world_size, timing=None, mode=Mode.PROFILE, record=record, timeline=timeline
    )


def test_the_page_says_how_far_the_gates_lie_apart(as_alice, alice, local):
    first, second = SUBMISSION.ranks
    opened = msgspec.structs.replace(
        SUBMISSION,
        ranks=(msgspec.structs.replace(first, opened_ns=-2_000), msgspec.structs.replace(second, opened_ns=1_000)),
    )
    submission = scenes.submit(alice)
    deliver(submission, local, timeline=Timeline(size="tiny", submission=opened))
    assert "in the recording of the submission they lie 3.00 µs apart" in page_of(as_alice, submission)


def test_a_call_that_takes_no_time_is_drawn(as_alice, alice, local):
    submission = scenes.submit(alice)
    deliver(submission, local, timeline=Timeline(size="tiny", submission=call([(SpanKind.KERNEL, GEMM, 0, 0)])))
    assert 'id="timeline"' in page_of(as_alice, submission)


def test_a_call_without_spans_is_no_recording(as_alice, alice, local):
    submission = scenes.submit(alice)
    empty = CallTimeline(names=(), ranks=())
    deliver(submission, local, timeline=Timeline(size="tiny", submission=empty))
    assert "Inside one call" not in page_of(as_alice, submission)
    assert json.loads(as_alice.get(reverse("submissions:report", args=[submission.evaluations.get().pk])).content)
