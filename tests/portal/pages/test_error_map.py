"""Where the wrong elements of an output lie, on the submission's page."""

import msgspec
from django.utils import timezone

from evaluator.contract import Delivery, ErrorMap, ErrorPattern, Finding, Verdict
from portal.submissions import actions
from portal.submissions.reports.failing_lines import error_maps
from tests.portal.pages import scenes
from tests.portal.pages.test_submission_page import page_of

SENTENCE = "all in part 2 of 2 along dimension 0 (100% of it): what rank 1 holds or sends is <missing>"
MAP = ErrorMap(
    shape=(64, 96),
    counts=tuple(tuple(6 if row >= 16 else 0 for _ in range(32)) for row in range(32)),
    largest_at=(40, 17),
    shard_dimension=0,
    shards=(0, 3072),
    pattern=ErrorPattern.ONE_SHARD,
    sentence=SENTENCE,
)


def judged_wrong(author, at):
    submission = scenes.submit(author)
    evaluation = scenes.lease(submission, at)
    report = scenes.report(evaluation, verdict=Verdict.WRONG_RESULT)
    finding = Finding(verdict=Verdict.WRONG_RESULT, message="wrong", rank=1, size="tiny", output="out", error_map=MAP)
    report = msgspec.structs.replace(report, findings=(finding,))
    delivery = Delivery(lease=evaluation.lease, node=at.name, report=report)
    assert actions.record_delivery(delivery, timezone.now())
    return submission, report


def test_the_pattern_is_said_in_words_and_drawn(as_alice, alice, local):
    submission, _ = judged_wrong(alice, local)
    page = page_of(as_alice, submission)
    assert "Rank 1, output out, size tiny: one rank&#x27;s part" in page
    assert "what rank 1 holds or sends is &lt;missing&gt;" in page
    assert "<missing>" not in page
    assert "3072 of 6144" in page
    assert "<title>6 wrong in rows 32 to 33, columns 0 to 2</title>" in page
    assert page.count('class="error-map-4"') == 16 * 32
    assert "style=" not in page.split('id="error-maps"')[1].split("</section>")[0]


def test_the_api_carries_the_map_as_the_judge_made_it(as_alice, alice, local):
    submission, _ = judged_wrong(alice, local)
    evaluation = submission.evaluations.get()
    answer = as_alice.get(f"/api/v1/submissions/{submission.pk}/evaluations/{evaluation.pk}/").json()["report"]
    assert answer["findings"][0]["error_map"]["sentence"] == SENTENCE
    assert answer["findings"][0]["error_map"]["counts"][31] == [6] * 32


def test_cells_cover_every_index_once(as_alice, alice, local):
    _, report = judged_wrong(alice, local)
    odd = msgspec.structs.replace(MAP, shape=(3, 70), counts=((1,) * 32,) * 3)
    (view,) = error_maps(
        msgspec.structs.replace(report, findings=(Finding(verdict=Verdict.WRONG_RESULT, message="x", error_map=odd),))
    )
    spans = [cell["title"].rpartition("columns ")[2].split(" to ") for cell in view["cells"] if cell["row"] == 0]
    covered = [index for span in spans for index in range(int(span[0]), int(span[-1]) + 1)]
    assert covered == list(range(70))


def test_a_pass_has_no_map(as_alice, alice, local):
    assert "error-maps" not in page_of(as_alice, scenes.judged(alice, local))
