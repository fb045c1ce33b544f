"""What stands in a report beside verdict and times: where ranks hung, the node's state, links, audited work."""

import msgspec
from django.utils import timezone

from evaluator.contract import (
    Audit,
    AuditedWork,
    Canary,
    Collective,
    Delivery,
    DriverFault,
    GpuReading,
    RankState,
    Record,
    SizeRecord,
    SlotKind,
    Verdict,
    Wire,
    WorkKind,
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
        "0 all_reduce 7 47 float[4, 8] 0, 1 waits",
        "1 all_gather 6 46 float[4, 8] 0, 1 finished",
    ]
    evaluation = submission.evaluations.get()
    answer = as_alice.get(f"/api/v1/submissions/{submission.pk}/evaluations/{evaluation.pk}/").json()["report"]
    assert answer["ranks"][0]["collectives"][0]["operation"] == "all_reduce"


def test_claimed_times_stand_beside_what_the_hosts_clock_saw(as_alice, alice, local):
    submission = scenes.submit(alice)
    timing = scenes.timing(sizes=("tiny", "base"))
    bursts = {"burst_us": 103.0, "burst_band_us": 171.0}
    sizes = tuple(
        msgspec.structs.replace(size, gap_us=540.0, band_us=1250.0, outside_us=900.0, outside_band_us=2250.0, **found)
        for size, found in zip(timing.sizes, (bursts, {}), strict=True)
    )
    deliver(submission, local, timing=msgspec.structs.replace(timing, sizes=sizes))
    assert cells(page_of(as_alice, submission), "Claimed times and the host's clock") == [
        "Claimed 80.0 µs 80.0 µs",
        "From its end to the answer 540 µs at most 1.25 ms 540 µs at most 1.25 ms",
        "All but the claim, since contents could be read 900 µs at most 2.25 ms 900 µs at most 2.25 ms",
        "Each further call in a burst 103 µs at most 171 µs not judged",
    ]


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
        wire=Wire(calls=3, sent_bytes=(10, 11), received_bytes=(12, 13), least_bytes=9.0, flag="look <here>"),
    )
    deliver(
        submission,
        local,
        canaries=(Canary(at="2026-11-21T02:00:00Z", is_full=True), Canary(at="2026-11-21T02:01:00Z", is_full=False)),
        record=Record(rules=profiles.get("cpux2").timing_rules(SlotKind.HOST_MEMORY), sizes=(size,)),
        audit=Audit(size="tiny", works=(AuditedWork(kind=WorkKind.KERNEL, name="gather<uint4>", count=2, us=31.0),)),
    )
    page = page_of(as_alice, submission)
    assert "The node proved 2 times around this evaluation" in page
    assert cells(page, "GPUs before and after the timed calls") == [
        "tiny 1 before 1980 MHz 3201 MHz 301 W 41 °C sw_power_cap"
    ]
    assert cells(page, "Bytes on the links") == ["tiny 10, 11 12, 13 9 look &lt;here&gt;"]
    assert cells(page, "What ran in one call") == ["kernel gather&lt;uint4&gt; 2 31.0 µs not told 1"]


def test_a_reference_that_met_its_contents_before_is_said_to_have(as_alice, alice, local):
    submission = scenes.submit(alice)
    known = SizeRecord(size="base", payload_bytes=1, floor_us=None, calls=(), is_primed=True)
    other = SizeRecord(size="large", payload_bytes=1, floor_us=None, calls=())
    rules = profiles.get("cpux2").timing_rules(SlotKind.HOST_MEMORY)
    deliver(submission, local, record=Record(rules=rules, sizes=(known, other)))
    assert "At base the reference met each call's contents once" in page_of(as_alice, submission)


def test_a_report_without_such_evidence_shows_no_empty_tables(as_alice, alice, local):
    page = page_of(as_alice, scenes.judged(alice, local))
    assert "Beside the verdict" not in page
    assert "Collectives" not in page


def test_what_the_driver_reported_stands_beside_the_verdict_and_silence_is_not_a_clean_bill(as_alice, alice, local):
    def shown(**changes) -> str:
        submission = scenes.submit(alice)
        deliver(submission, local, verdict=Verdict.CRASHED, **changes)
        return page_of(as_alice, submission)

    astray = DriverFault(gpu=1, xid=31, count=2, noticed_at="2026-11-21T12:00:00.000+00:00")
    canary = Canary(at="2026-11-21T12:00:01Z", is_full=True)
    page = shown(driver_faults=(astray,))
    assert "GPU 1: Xid 31 (a memory access outside of what is mapped), 2 times" in page
    assert "12:00:00.000" in page
    assert "driver reported no fault" in shown(driver_faults=(), canaries=(canary,))
    assert "driver reported" not in shown(driver_faults=None, canaries=(canary,))
