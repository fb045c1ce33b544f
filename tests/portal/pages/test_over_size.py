"""Time over size on the pages of submissions and problems."""

import json
import re

import pytest

from evaluator.contract import SCORE_RULE, Baseline, BaselineTable, Verdict
from portal.catalog import measurements
from portal.submissions.actions import set_visibility
from portal.submissions.models import Evaluation, State
from portal.submissions.reports import over_size
from portal.submissions.reports.over_size import crossover
from problems import registry
from tests.portal.factories import evaluation_of, submit
from tests.portal.test_sweeps import NAMES, lease, point, tell

pytestmark = pytest.mark.django_db
TOLD = {
    "faster": {"speedup": 2.0, "low": 1.8, "high": 2.2},
    "slower": {"speedup": 0.5, "low": 0.4, "high": 0.6},
    "even": {"speedup": 1.0, "low": 0.9, "high": 1.1},
    "noisy": {"speedup": 1.0, "low": 0.1, "high": 9.0},
    "wrong": {"verdict": Verdict.WRONG_RESULT, "submission": None, "speedup": None, "low": None, "high": None},
}
SIZES = {4096: "4 KiB", 16384: "16 KiB", 65536: "64 KiB", 262144: "256 KiB", 1048576: "1 MiB"}


def text(answer):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))


@pytest.fixture
def swept_by(node, now):
    """Sweep as `author`, as far as there are `words` (keys of TOLD) for points."""

    def sweep(author, *words, visibility="public") -> Evaluation:
        evaluation = evaluation_of(submit(author, mode="sweep", visibility=visibility))
        lease(evaluation, node)
        Evaluation.objects.filter(pk=evaluation.pk).update(lease=str(evaluation.pk), started_at=now)
        evaluation.refresh_from_db()
        tell(evaluation, node, now, *(point(name, **TOLD[word]) for name, word in zip(NAMES, words, strict=False)))
        Evaluation.objects.filter(pk=evaluation.pk).update(slot_index=None, state=State.FINISHED, finished_at=now)
        return evaluation

    return sweep


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("faster faster faster faster slower", "faster up to 256 KiB, slower at 1 MiB"),
        ("slower even faster faster faster", "slower at 4 KiB, not distinguishable at 16 KiB, faster from 64 KiB on"),
        ("faster wrong slower slower", "faster at 4 KiB, slower from 64 KiB to 256 KiB"),
        ("faster faster faster faster faster", "faster at every size measured"),
        ("noisy noisy slower", "too noisy to tell up to 16 KiB, slower at 64 KiB"),
        ("wrong", ""),
    ],
)
def test_words_say_for_which_sizes_an_entry_is_faster(words, sentence):
    told = [point(name, **TOLD[word]) for name, word in zip(NAMES, words.split(), strict=False)]
    assert crossover(told, SIZES) == sentence


def test_a_submissions_page_shows_the_points_that_have_come(client, alice, node, now):
    evaluation = evaluation_of(submit(alice, mode="sweep", visibility="public"))
    address = f"/submissions/{evaluation.submission_id}/"
    for query in ("", "?y=bandwidth"):
        assert "0 of 5 points measured." in text(client.get(f"{address}{query}"))
    lease(evaluation, node)
    Evaluation.objects.filter(pk=evaluation.pk).update(started_at=now)
    tell(evaluation, node, now, point(NAMES[0]), point(NAMES[1], **TOLD["slower"]))
    for page in (text(client.get(address)), text(client.get(f"{address}live/"))):
        assert "2 of 5 points measured." in page
        assert "alice : faster at 4 KiB, slower at 16 KiB." in page
        # A practice profile names no factor.
        assert "4 KiB 200 µs 100 µs faster here (1.80 to 2.20)" in page
        assert "1 MiB not measured not measured yet" in page
    in_bandwidth = text(client.get(f"{address}?y=bandwidth"))
    assert "4 KiB 20.5 MB/s 41.0 MB/s" in in_bandwidth  # 4096 bytes in 200 and 100 microseconds
    refused = client.get(f"{address}?y=luck")
    assert (refused.status_code, "Choose one of time, bandwidth." in text(refused)) == (404, True)


def test_a_problems_page_lays_the_newest_sweeps_that_a_reader_may_see_over_each_other(client, alice, bob, swept_by):
    swept_by(alice, *["slower"] * 5)
    swept_by(alice, *["faster"] * 5)
    hidden = swept_by(bob, *["slower"] * 5, visibility="private")
    page = text(client.get("/problems/allreduce/?swept=cpux2"))
    assert "alice : faster at every size measured." in page
    assert "bob : " not in page
    set_visibility(hidden.submission, by=bob, visibility="public")
    page = client.get("/problems/allreduce/?swept=cpux2")
    assert "bob : slower at every size measured." in text(page)
    address = re.search(r'data-plot="([^"]*figure=sweep-figure[^"]*)"', page.content.decode()).group(1)
    names = {trace["name"] for trace in json.loads(client.get(address.replace("&amp;", "&")).content)["data"]}
    assert {"reference", "alice", "bob"} <= names


def test_a_problems_page_draws_a_reference_that_was_measured_alone(client, db, tmp_path, monkeypatch):
    times = {"dims": {}, "dtype": "bfloat16", "calls": 9, "low_us": 1.0, "high_us": 2.0, "p10_us": 1.0, "p90_us": 2.0}
    found = {
        name: Baseline(
            revision=registry.revision("allreduce"), median_us=1000.0 + place, rank_medians_us=(1.0,), **times
        )
        for place, name in enumerate(NAMES)
    }
    table = BaselineTable(
        profile="cpux2",
        measured_at="2026-11-27T04:42:22+00:00",
        environment={},
        baselines={"allreduce": found},
        rule=SCORE_RULE,
    )
    (tmp_path / "cpux2.json").write_text(table.to_json())
    monkeypatch.setattr(over_size, "BASELINES", tmp_path)
    page = client.get("/problems/allreduce/")
    assert 'id="sweep-figure"' in page.content.decode()
    assert "The reference alone was measured on 27 November 2026" in text(page)
    assert "16 KiB 1.00 ms" in text(page)
    assert "16 KiB 16.4 MB/s" in text(client.get("/problems/allreduce/?y=bandwidth"))


def test_what_ships_of_references_is_of_every_problem_with_an_axis():
    swept = {each.slug for each in registry.problems() if each.axes}
    for profile in ("h100x2-nomc", "h100x4-nomc"):
        table = measurements.baselines(profile, folder=over_size.BASELINES)
        assert {slug: list(found) for slug, found in table.baselines.items()} == {
            slug: [point.name for point in registry.get(slug).points(("base",))] for slug in swept
        }
        assert all(
            each.revision == registry.revision(slug) for slug in swept for each in table.baselines[slug].values()
        )


def test_a_problem_without_a_sweep_says_so(client, db, tmp_path, monkeypatch):
    monkeypatch.setattr(over_size, "BASELINES", tmp_path)
    page = text(client.get("/problems/allgather/"))
    assert "times an entry and the reference over message size" in page
    assert "Nobody has published a sweep yet." in page
    assert "Time over size" not in text(client.get("/problems/ring_attention/"))
