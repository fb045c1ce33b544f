"""Malformed messages from nodes: each counts as what it says, or changes nothing; none is a failure of the site."""

import json
import random

import msgspec
import pytest

from evaluator.contract import Finding, NodeStatus, Progress, SandboxLevel, SlotState, SlotStatus, Stage, Verdict
from portal.nodes.models import Slot
from portal.submissions.models import Evaluation, Report, State
from tests.evaluator.test_fuzz import mutated
from tests.portal.conftest import NODE_KEY
from tests.portal.factories import delivery_of
from tests.portal.telling import post, tell

pytestmark = pytest.mark.django_db


def bent(text: str, chance: random.Random) -> str:
    """A message with one to three things changed, and sometimes cut off."""
    value = json.loads(text)
    for _ in range(chance.randrange(1, 4)):
        value = mutated(value, chance)
    changed = json.dumps(value)
    return changed[: chance.randrange(len(changed) + 1)] if chance.random() < 0.2 else changed


def assert_messages_change_nothing_else(evaluation: Evaluation, *, times: int, seed: int) -> None:
    """After each of `times` malformed messages the evaluation has ended, is queued again, or goes on as before."""
    chance = random.Random(seed)
    lease = evaluation.lease
    told = Progress(evaluation_id=str(evaluation.pk), lease=lease, stage=Stage.TIMING, detail="block 3").to_json()
    delivered = delivery_of(evaluation, verdict=Verdict.WRONG_RESULT).to_json()
    status = NodeStatus(
        node="alpha",
        slots=(SlotStatus(index=0, profile="cpux2", state=SlotState.FREE),),
        sandbox=SandboxLevel.REDUCED,
        backends=(),
        revisions={},
    ).to_json()
    for _ in range(times):
        for kind, text in (("progress", told), ("report", delivered), ("heartbeat", status)):
            answer = post(
                kind, bent(text, chance).encode(), key=NODE_KEY, node="alpha", **{"Content-Encoding": "identity"}
            )
            assert answer.status_code in {200, 403, 409, 422}, answer.content
        evaluation.refresh_from_db()
        if evaluation.state == State.FINISHED:
            # The malformed part did not matter: the message still named evaluation, lease, node and source.
            assert evaluation.verdict in set(Verdict)
            Report.objects.all().delete()
            Evaluation.objects.update(state=State.RUNNING, lease=lease, verdict="", finished_at=None)
        elif evaluation.state == State.QUEUED:
            evaluation.state, evaluation.lease = State.RUNNING, lease
            evaluation.node_id, evaluation.slot_index, evaluation.attempt = Slot.objects.get().node_id, 0, 1
            evaluation.save()
            Report.objects.all().delete()
        else:
            assert evaluation.state in {State.LEASED, State.RUNNING}
            assert evaluation.lease == lease


def test_malformed_messages_change_nothing_or_what_they_say(leased):
    assert_messages_change_nothing_else(leased, times=60, seed=7)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_malformed_messages_thousands_of_times(leased, seed):
    assert_messages_change_nothing_else(leased, times=500, seed=seed)


@pytest.mark.parametrize("fraction", [-1e308, 1.01, 1e308])
def test_a_fraction_beyond_the_whole_is_refused(leased, fraction):
    told = Progress(evaluation_id=str(leased.pk), lease=leased.lease, stage=Stage.TIMING, fraction=fraction)
    answer = tell(told, key=NODE_KEY, node="alpha")
    leased.refresh_from_db()
    assert (leased.state, leased.stage_fraction) == (State.LEASED, None)
    assert (answer.status_code, b"fraction" in answer.content) == (422, True)


def test_a_nul_in_what_a_submission_printed_does_not_cost_the_report(leased):
    report = delivery_of(leased, verdict=Verdict.CRASHED).report
    report = msgspec.structs.replace(
        report, message="rank 0 \0 crashed", findings=(Finding(verdict=Verdict.CRASHED, message="\0", rank=0),)
    )
    tell(msgspec.structs.replace(delivery_of(leased), report=report), key=NODE_KEY, node="alpha")
    leased.refresh_from_db()
    assert (leased.state, leased.verdict) == (State.FINISHED, "CRASHED")
    assert leased.message == "rank 0 \N{REPLACEMENT CHARACTER} crashed"
    assert "\\u0000" not in json.dumps(Report.objects.get().content)
