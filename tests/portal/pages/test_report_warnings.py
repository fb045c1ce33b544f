"""What a check would refuse in ranked mode, and what a report lacks, on the submission's page and in the API."""

import msgspec
from django.utils import timezone

from evaluator.contract import Delivery, Finding, Verdict
from portal.submissions import actions
from tests.portal.pages import scenes
from tests.portal.pages.test_submission_page import page_of

WARNING = Finding(
    verdict=Verdict.FORBIDDEN, message="dist.all_reduce moves <the data> inside solution", file="solution.py", line=4
)
NOTE = "rank 1 printed <too> much"


def test_warnings_and_notes_are_shown_and_carried_by_the_api(as_alice, alice, local):
    submission = scenes.submit(alice)
    evaluation = scenes.lease(submission, local)
    report = msgspec.structs.replace(
        scenes.report(evaluation, verdict=Verdict.PASSED), warnings=(WARNING,), notes=(NOTE,)
    )
    assert actions.record_delivery(Delivery(lease=evaluation.lease, node=local.name, report=report), timezone.now())
    page = page_of(as_alice, submission)
    assert "What ranked mode would refuse" in page
    assert "moves &lt;the data&gt; inside" in page
    assert 'href="#solution.py-L4"' in page
    answer = as_alice.get(f"/api/v1/submissions/{submission.pk}/evaluations/{evaluation.pk}/").json()["report"]
    assert answer["warnings"][0]["line"] == 4
    assert "<li>Rank 1 printed &lt;too&gt; much.</li>" in page
    assert answer["notes"] == [NOTE]
