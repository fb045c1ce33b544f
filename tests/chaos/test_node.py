"""The simulated node is one that the site takes: it registers and judges as sources say, also one that lies."""

import pytest

from evaluator.contract import SlotState, Verdict
from portal.accounts.models import User
from portal.nodes.models import Node
from portal.submissions.models import Evaluation, State
from tests.portal.factories import bundle, submit
from tests.stack import wait_until
from tools.chaos.prepared import Outcome, source_of


@pytest.mark.parametrize("lies", ["", "lies"])
def test_a_simulated_node_answers_what_its_source_asks_for(stack, lies):
    alice = User.objects.create_user("alice")
    stack.start_web()
    stack.start_dispatcher()
    stack.start_node(
        "alpha", module="tools.chaos.node", environment={"PKB_CHAOS_LIES": lies, "PKB_CHAOS_BUILDERS": "0"}
    )
    wait_until(
        lambda: Node.objects.filter(slots__state=SlotState.FREE).exists(),
        what=lambda: f"a heartbeat\n{stack.log('alpha')}",
    )
    asked = {Verdict.PASSED: 1.5, Verdict.WRONG_RESULT: None}
    for verdict in asked:
        source = source_of(Outcome(verdict=verdict, low=1.5), number=verdict)
        submit(alice, files=bundle(source))
    # With this randomness the liar keeps neither report to itself, which would cost the deadline of a lease.
    wait_until(
        lambda: Evaluation.objects.filter(state=State.FINISHED).count() == 2,
        what=lambda: f"verdicts\n{stack.log('alpha')}\n{stack.log('web')}",
    )
    assert {e.verdict: e.score_low for e in Evaluation.objects.all()} == asked
