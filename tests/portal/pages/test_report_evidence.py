"""What stands in a report beside verdict and times: where ranks hung, the node's state, links, audited work."""

import re

import msgspec
from django.utils import timezone

from evaluator.contract import (
    SCORE_RULE,
    Canary,
    Collective,
    Delivery,
    DriverFault,
    GpuReading,
    LinkTraffic,
    RankState,
    Record,
    RecordedWork,
    SizeRecord,
    Timing,
    Verdict,
    WorkKind,
    WorkTotal,
)
from evaluator.hardware import profiles
from portal.submissions import actions
from tests.portal.pages import scenes
from tests.portal.pages.test_submission_page import page_of


def collective(operation: str, number: int, *, is_done: bool) -> Collective:
    return Collective(
        operation=operation, ranks=(0, 1), number=number, sequence=40 + number, tensors="float[4, 8]", is_done=is_done
    )


def deliver(submission, local, **changes) -> None:
    evaluation = scenes.lease(submission, local)
    verdict = changes.pop("verdict", Verdict.PASSED)
    report = msgspec.structs.replace(scenes.report(evaluation, verdict=verdict), **changes)
    assert actions.record_delivery(Delivery(lease=evaluation.lease, node=local.name, report=report), timezone.now())


def cells(page: str, caption: str) -> list[str]:
    after = page.partition(f'aria-label="{caption}"')[2].partition("<tbody>")[2]
    rows = [row.partition("</tr>")[0] for row in after.partition("</tbody>")[0].split("<tr>")[1:]]
    return [" ".join(part.split(">")[-1] for part in row.split("<") if part.split(">")[-1].strip()) for row in rows]


def test_a_hang_shows_each_ranks_collectives_on_the_page_and_in_the_api(as_alice, alice, local):
    submission = scenes.submit(alice)
    standing = ((collective("all_reduce", 7, is_done=False),), (collective("all_gather", 6, is_done=True),))
    ranks = tuple(
        RankState(rank=rank, exit="running", phase="waits", calls_done=0, collectives=known)
        for rank, known in enumerate(standing)
    )
    deliver(submission, local, verdict=Verdict.DEADLOCK, ranks=ranks)
    assert cells(page_of(as_alice, submission), "Collectives") == [
        "0 all_reduce 7 47 float[4, 8] 0, 1 unfinished",
        "1 all_gather 6 46 float[4, 8] 0, 1 finished",
    ]
    evaluation = submission.evaluations.get()
    answer = as_alice.get(f"/api/v1/submissions/{submission.pk}/evaluations/{evaluation.pk}/").json()["report"]
    assert answer["ranks"][0]["collectives"][0]["operation"] == "all_reduce"


def timed_by_host(timing: Timing) -> Timing:
    """The same with what the present rule says besides; the second size was not run back to back."""
    looped = ({"looped_us": 71.0, "baseline_looped_us": 95.0}, {})
    sizes = tuple(
        msgspec.structs.replace(
            size,
            score=1.25,
            low=1.21,
            high=1.29,
            empty_us=61.0,
            candidate_empty_us=64.0,
            forgeable_us=38.0,
            claimed_us=78.0,
            **more,
        )
        for size, more in zip(timing.sizes, looped, strict=False)
    )
    return msgspec.structs.replace(timing, sizes=sizes, rule=SCORE_RULE)


def gated(*sizes: str) -> Record:
    """A record of calls behind a gate; the submission waits for the device in the middle, the reference does not."""
    return Record(
        rules=profiles.get("h200x2-nomc").timing_rules(),
        sizes=tuple(
            SizeRecord(size=size, payload_bytes=1, floor_us=None, calls=(), queues=False, reference_queues=True)
            for size in sizes
        ),
    )


def test_what_was_taken_off_and_how_calls_began_stand_beside_the_times(as_alice, alice, local):
    submission = scenes.submit(alice)
    deliver(
        submission, local, timing=timed_by_host(scenes.timing(sizes=("tiny", "base"))), record=gated("tiny", "base")
    )
    page = page_of(as_alice, submission)
    assert cells(page, "Overhead subtracted, and how calls started") == [
        "Subtracted from the submission 64.0 µs 64.0 µs",
        "Subtracted from the reference 61.0 µs 61.0 µs",
        "Forging gains at most 38.0 µs 38.0 µs",
        "Submission fully queued no no",
        "Reference fully queued yes yes",
    ]
    assert cells(page, "Back to back") == ["Submission 71.0 µs not run", "Reference 95.0 µs not run"]
    assert cells(page, "Times per size")[0].startswith("tiny 240 calls about as fast 1.21 to 1.29 80.0 µs")


def test_no_page_shows_a_time_that_a_submissions_own_process_reported(as_alice, alice, local):
    submission = scenes.submit(alice)
    told = msgspec.structs.replace(timed_by_host(scenes.timing(sizes=("tiny",))).sizes[0], claimed_us=4321.0)
    audit = RecordedWork(size="tiny", works=(WorkTotal(kind=WorkKind.KERNEL, name="gather", count=2, us=4321.0),))
    timing = msgspec.structs.replace(scenes.timing(), sizes=(told,))
    deliver(submission, local, timing=timing, record=gated("tiny"), recorded_work=audit)
    page = page_of(as_alice, submission)
    assert "4321" not in page
    assert "4.32" not in page


def test_ranks_on_processors_have_no_gate(as_alice, alice, local):
    submission = scenes.submit(alice)
    rules = profiles.get("cpux2").timing_rules()
    record = msgspec.structs.replace(gated("tiny"), rules=rules)
    deliver(submission, local, timing=timed_by_host(scenes.timing(sizes=("tiny", "base"))), record=record)
    page = page_of(as_alice, submission)
    assert len(cells(page, "Overhead subtracted, and how calls started")) == 2
    assert "fully queued" not in page


def test_times_that_are_too_noisy_are_shown_as_words_and_never_as_an_interval(as_alice, alice, local):
    """A busy practice board: empty calls took longer than calls, so net times are the resolution."""
    submission = scenes.submit(alice)
    timing = timed_by_host(scenes.timing(sizes=("tiny", "base")))
    tiny, base = timing.sizes
    wild = msgspec.structs.replace(tiny, ratios=(529.0,) * 12, score=529.0, low=0.004, high=340105.0)
    noisy = msgspec.structs.replace(timing, sizes=(wild, base), score=25.7, low=0.07, high=665.0)
    deliver(submission, local, timing=noisy)
    page = page_of(as_alice, submission)
    assert "The times were too noisy to tell how fast it is." in page
    assert "No speedup can be told from that." in page
    assert cells(page, "Times per size")[0].startswith("tiny 240 calls too noisy to tell 80.0 µs")
    assert "about as fast 1.21 to 1.29" in cells(page, "Times per size")[1]
    assert cells(page, "Ratios per block")[0].startswith("1 too noisy to tell too noisy to tell 1.")
    for number in ("529", "340105", "665.0", "25.7"):  # as words: identifiers may hold these digits
        assert not re.search(rf"\b{re.escape(number)}\b", page)
    mine = as_alice.get("/submissions/").content.decode()
    assert "too noisy to tell" in mine
    assert not re.search(r"\b665\b", mine)


def test_sizes_with_different_numbers_of_blocks_are_shown_whole(as_alice, alice, local):
    submission = scenes.submit(alice)
    timing = timed_by_host(scenes.timing(sizes=("tiny", "base")))
    tiny, base = timing.sizes
    longer = msgspec.structs.replace(base, ratios=(*base.ratios, 1.777))
    deliver(submission, local, timing=msgspec.structs.replace(timing, sizes=(tiny, longer)))
    assert cells(page_of(as_alice, submission), "Ratios per block")[-1] == "13 1.777"


def test_node_links_and_audited_work_stand_beside_the_verdict(as_alice, alice, local):
    submission = scenes.submit(alice)
    reading = GpuReading(
        gpu=1, moment="before", sm_mhz=1980, memory_mhz=3201, watts=301.4, celsius=41, throttled_by=("sw_power_cap",)
    )
    size = SizeRecord(
        size="tiny",
        payload_bytes=1,
        floor_us=None,
        calls=(),
        gpus=(reading,),
        links=LinkTraffic(calls=3, sent_bytes=(10, 11), received_bytes=(12, 13), least_bytes=9.0, flag="look <here>"),
    )
    deliver(
        submission,
        local,
        canaries=(Canary(at="2026-11-21T02:00:00Z", is_full=True), Canary(at="2026-11-21T02:01:00Z", is_full=False)),
        record=Record(rules=profiles.get("cpux2").timing_rules(), sizes=(size,)),
        recorded_work=RecordedWork(
            size="tiny", works=(WorkTotal(kind=WorkKind.KERNEL, name="gather<uint4>", count=2, us=31.0),)
        ),
    )
    page = page_of(as_alice, submission)
    assert "The node tested its own arithmetic and communication 2 times around this evaluation" in page
    assert cells(page, "GPUs before and after the timed calls") == [
        "tiny 1 before 1980 MHz 3201 MHz 301 W 41 °C sw_power_cap"
    ]
    assert cells(page, "Link traffic") == ["tiny 10, 11 12, 13 9 look &lt;here&gt;"]
    assert cells(page, "What ran in one call") == ["kernel gather&lt;uint4&gt; 2 not reported 1"]


def test_a_page_says_that_a_reference_had_run_on_its_inputs_before(as_alice, alice, local):
    submission = scenes.submit(alice)
    known = SizeRecord(size="base", payload_bytes=1, floor_us=None, calls=(), is_primed=True)
    other = SizeRecord(size="large", payload_bytes=1, floor_us=None, calls=())
    rules = profiles.get("cpux2").timing_rules()
    deliver(submission, local, record=Record(rules=rules, sizes=(known, other)))
    assert "At base the reference ran once on each call's inputs" in page_of(as_alice, submission)


def test_a_report_without_such_evidence_shows_no_empty_tables(as_alice, alice, local):
    page = page_of(as_alice, scenes.judged(alice, local))
    assert "Integrity checks" not in page
    assert "Collectives" not in page


def test_what_the_driver_reported_stands_beside_the_verdict_and_silence_is_not_a_clean_bill(as_alice, alice, local):
    def shown(**changes) -> str:
        submission = scenes.submit(alice)
        deliver(submission, local, verdict=Verdict.CRASHED, **changes)
        return page_of(as_alice, submission)

    astray = DriverFault(gpu=1, xid=31, count=2, noticed_at="2026-11-21T12:00:00.000+00:00")
    canary = Canary(at="2026-11-21T12:00:01Z", is_full=True)
    page = shown(driver_faults=(astray,))
    assert "GPU 1: Xid 31 (a memory access outside mapped memory), 2 times" in page
    assert "12:00:00.000" in page
    assert "driver reported no fault" in shown(driver_faults=(), canaries=(canary,))
    assert "driver reported" not in shown(driver_faults=None, canaries=(canary,))


def test_what_a_person_should_look_at_is_on_the_page(as_alice, alice, local):
    submission = scenes.submit(alice)
    deliver(submission, local, alarms=("the reference ran 1.3 times as long beside this submission",))
    page = page_of(as_alice, submission)
    assert "For an operator to review" in page
    assert "the reference ran 1.3 times as long beside this submission" in page
    assert "An alarm changes neither verdict nor score" in page
