"""Mode published on the site: anybody may ask for it, its author reads both figures, and nothing of it is ranked."""

import msgspec
import pytest
from django.utils import timezone

from evaluator.contract import Delivery, PublishedTime
from portal.ranking.models import Standing
from portal.submissions import actions
from portal.submissions.models import Evaluation
from tests.portal.factories import evaluation_of, report_on, submit

pytestmark = pytest.mark.django_db
WORDS = "correct by the published rule in 5 usual calls, which is less than other modes check; 80.0 us against 100.0 us"
SOURCE = "def solution(tensor):\n    return tensor\n"
TIMES = PublishedTime(
    size="tiny",
    submission_us=80.0,
    reference_us=100.0,
    warm_calls=500,
    timed_calls=100,
    groups=4,
    group_bytes=1 << 20,
    cache_bytes=0,
)


def test_a_pass_by_the_published_rule_is_told_to_its_author_and_stands_on_no_board(as_alice, alice, node):
    evaluation = evaluation_of(submit(alice, mode="published", visibility="public"))
    Evaluation.objects.filter(pk=evaluation.pk).update(state="running", lease="a", node=node, slot_index=0)
    evaluation.refresh_from_db()
    report = msgspec.structs.replace(report_on(evaluation), message=WORDS, published=TIMES)
    assert actions.record_delivery(Delivery(lease="a", node=node.name, report=report), timezone.now())
    assert WORDS[1:] in as_alice.get(f"/submissions/{evaluation.submission_id}/").content.decode()
    shown = as_alice.get(f"/submissions/{evaluation.submission_id}/").content.decode()
    assert "<b>80.0 µs</b><span>against 100 µs of the reference, at tiny by the published protocol" in shown
    assert "1.25×" not in shown  # noqa: RUF001 - it is meant
    assert "500 to warm up and 100 timed" in shown
    answer = as_alice.get(f"/api/v1/submissions/{evaluation.submission_id}/").json()["evaluation"]
    assert answer["message"] == WORDS
    assert answer["report"]["published"]["reference_us"] == 100.0
    assert "Submit it in ranked mode" in answer["facts"]["advice"]
    assert not Standing.objects.exists()


def test_its_factor_is_shown_where_times_rank(as_alice, alice, node):
    evaluation = evaluation_of(submit(alice, mode="published", profile="h100x2", backend="pytorch"))
    Evaluation.objects.filter(pk=evaluation.pk).update(state="running", lease="a", node=node, slot_index=0)
    evaluation.refresh_from_db()
    report = msgspec.structs.replace(report_on(evaluation), message=WORDS, published=TIMES)
    assert actions.record_delivery(Delivery(lease="a", node=node.name, report=report), timezone.now())
    shown = as_alice.get(f"/submissions/{evaluation.submission_id}/").content.decode()
    assert "<b>1.25×</b><span>speedup at tiny by the published protocol" in shown  # noqa: RUF001 - it is meant


def test_the_desk_and_the_api_offer_it(as_alice):
    assert 'value="published"' in as_alice.get("/problems/allreduce/submit/").content.decode()
    values = {"problem": "allreduce", "backend": "pytorch", "profile": "cpux2", "mode": "published"}
    answer = as_alice.post("/api/v1/submissions/", values | {"source": SOURCE}, content_type="application/json")
    assert answer.status_code in (201, 202), answer.content
