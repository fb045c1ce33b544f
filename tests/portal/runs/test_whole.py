"""A run from upload to publication with every process of the site: judged by real ranks, with events sent to a real
listener."""

import json

import pytest

from portal.deliveries import actions as deliveries
from portal.runs import actions, queries
from tests.portal.deliveries.conftest import listener  # noqa: F401 - a fixture
from tests.portal.runs.rows import add, line, make_run
from tests.stack import wait_until

WRONG = "def solution(tensor):\n    return tensor.clone()\n"


@pytest.mark.slow
def test_a_run_is_judged_announced_and_published(stack, alice, listener):  # noqa: F811 - the fixture
    stack.start_all()
    run = make_run(alice)
    deliveries.add_webhook(
        run.model.organisation, url=listener.url, events=["run.completed", "attempt.ended"], by=alice
    )
    add(run, line(), line(sample=1, source=WRONG, mode="check"), line("allgather", source=""))
    wait_until(lambda: not queries.counts(run)[1], what=lambda: f"both are judged\n{stack.log('alpha')}", seconds=120)
    results = dict(run.attempts.values_list("key", "verdict"))
    assert results == {"allreduce/0/0": "PASSED", "allreduce/1/0": "WRONG_RESULT", "allgather/0/0": "IMPORT_ERROR"}
    wait_until(lambda: len(listener.heard) >= 4, what=lambda: f"all is told\n{stack.log('dispatcher')}", seconds=30)
    told = [json.loads(body)["kind"] for _, _, body in listener.heard]
    assert sorted(told) == ["attempt.ended"] * 3 + ["run.completed"]
    actions.publish_run(run, by=alice, sources="public")
    found = queries.model_board("cpux2")[0].figures
    assert (found.solved, found.attempted) == (1, 2)
