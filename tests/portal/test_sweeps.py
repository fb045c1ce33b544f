"""Sweeps on the site: points are kept however a try ends, and a new try goes on after them."""

import csv
import io

import msgspec
import pytest

from evaluator.contract import Progress, Stage, SweepPoint, TimeSummary, Verdict
from portal.core.errors import Refusal
from portal.runs.uploads import attempt_from
from portal.submissions import actions, lifecycle, queries, sweeps
from portal.submissions.models import Evaluation, State
from tests.portal.factories import delivery_of, evaluation_of, submit

pytestmark = pytest.mark.django_db

NAMES = [f"tiny:bytes={4096 * 4**power}" for power in range(5)]


def point(name: str, **changes) -> SweepPoint:
    times = TimeSummary(median_us=200.0, p10_us=190.0, p90_us=220.0, calls=24)
    fields = {
        "size": name,
        "value": int(name.partition("=")[2]),
        "verdict": Verdict.PASSED,
        "reference": times,
        "submission": msgspec.structs.replace(times, median_us=100.0),
        "speedup": 2.0,
        "low": 1.8,
        "high": 2.2,
        "bus_bytes": 4096.0,
    }
    return SweepPoint(**(fields | changes))


@pytest.fixture
def swept(alice, node) -> Evaluation:
    """A sweep that a node has under a lease."""
    evaluation = evaluation_of(submit(alice, mode="sweep", visibility="public"))
    lease(evaluation, node)
    return evaluation


def lease(evaluation: Evaluation, node) -> None:
    Evaluation.objects.filter(pk=evaluation.pk).update(
        state=State.RUNNING, lease=f"lease-{evaluation.attempt}", node=node, slot_index=0
    )
    evaluation.refresh_from_db()


def tell(evaluation: Evaluation, node, now, *points: SweepPoint) -> None:
    about = {"evaluation_id": str(evaluation.pk), "lease": evaluation.lease, "stage": Stage.TIMING}
    actions.receive_progress(node, Progress(**about, points=points), now)
    evaluation.refresh_from_db()


def test_a_new_try_is_asked_for_the_points_that_no_try_has(swept, node, now):
    assert queries.request_of(swept).sizes == tuple(NAMES)
    tell(swept, node, now, point(NAMES[0]), point(NAMES[1]))
    assert lifecycle.queue_again(swept, attempt=2, detail="its node stopped responding")
    swept.refresh_from_db()
    assert [each.size for each in sweeps.points_of(swept)] == NAMES[:2]
    assert queries.request_of(swept).sizes == tuple(NAMES[2:])


def test_a_sweep_ends_with_the_points_of_all_its_tries_and_without_a_score(swept, node, now):
    tell(swept, node, now, point(NAMES[1]), point(NAMES[0]))
    delivery = delivery_of(swept)
    report = msgspec.structs.replace(delivery.report, points=tuple(point(name) for name in NAMES[2:]))
    assert actions.record_delivery(msgspec.structs.replace(delivery, report=report), now)
    swept.refresh_from_db()
    assert (swept.state, swept.verdict, swept.score) == (State.FINISHED, "PASSED", None)
    assert swept.message.startswith("correct at 5 of 5 points, significantly faster than the reference at 5")
    assert [each.size for each in sweeps.points_of(swept)] == NAMES


def test_a_wrong_point_of_an_earlier_try_is_judged_again(swept, node, now):
    times = {"submission": None, "reference": None, "speedup": None, "low": None, "high": None}
    wrong = point(NAMES[0], verdict=Verdict.WRONG_RESULT, message="rank 1: 3 wrong", **times)
    tell(swept, node, now, wrong, point(NAMES[1]))
    assert queries.request_of(swept).sizes == (NAMES[0], *NAMES[2:])


def test_points_that_the_judge_failed_or_that_are_none_are_not_kept(swept, node, now):
    failed = SweepPoint(size=NAMES[0], value=4096, verdict=Verdict.JUDGE_FAILURE, message="no memory")
    tell(swept, node, now, failed, msgspec.structs.replace(point(NAMES[1]), size="base:bytes=7"))
    assert swept.points == {}


def test_points_survive_a_cancellation(swept, node, now, alice):
    tell(swept, node, now, point(NAMES[0]))
    actions.cancel_evaluation(swept, by=alice)
    swept.refresh_from_db()
    assert [each.size for each in sweeps.points_of(swept)] == NAMES[:1]


def test_points_are_read_as_a_table_and_by_the_api(swept, node, now, client):
    tell(swept, node, now, point(NAMES[0]))
    body = client.get(f"/api/v1/submissions/{swept.submission_id}/").json()
    assert [(each["size"], each["speedup"]) for each in body["evaluation"]["points"]] == [(NAMES[0], 2.0)]
    answer = client.get(f"/submissions/evaluations/{swept.pk}/sweep.csv")
    [row] = csv.DictReader(io.StringIO(answer.content.decode()))
    assert (row["size"], row["submission_us"], row["reference_us"]) == (NAMES[0], "100.0", "200.0")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"problem": "ddp"}, "Problem ddp has no axis to sweep along. Choose mode benchmark."),
        ({"profile": "gpu1r2"}, "Profile gpu1r2 times nothing"),
        ({"size": "tiny"}, "Mode sweep has sizes of its own"),
    ],
)
def test_what_cannot_be_swept_is_refused_with_a_remedy(alice, changes, words):
    with pytest.raises(Refusal) as refused:
        submit(alice, mode="sweep", **changes)
    assert words in f"{refused.value.message} {refused.value.remedy}"


def test_an_attempt_of_a_run_is_no_sweep():
    with pytest.raises(Refusal) as refused:
        attempt_from({"problem": "allreduce", "mode": "sweep", "source": "def solution(tensor): ..."})
    assert refused.value.field == "mode"
    assert "ranked" in refused.value.remedy
