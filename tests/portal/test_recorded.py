"""Day one: the kernels and reports that ship with the problems stand on the boards, marked, and go without a trace."""

import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from evaluator.contract import SCORE_RULE, Backend, EvaluationReport
from portal.accounts.models import User
from portal.catalog import measurements
from portal.catalog.references import reference_row
from portal.exports import tables
from portal.ranking import queries, recorded
from portal.ranking.models import Board, PersonStanding, Record, Standing
from portal.submissions import actions
from portal.submissions.models import Evaluation, Report, Submission
from problems import registry
from tests.evaluator.timed_records import report_of, series
from tests.portal.factories import delivery_of, evaluation_of, report_on, submit

pytestmark = pytest.mark.django_db
FOUR = {
    "gemm_allreduce",
    "hyena_forward_cp",
    "sam3_allgather_iou_suppression",
    "vocab_parallel_log_prob_topk",
}
"""Those whose texts have been judged by the earlier rule too."""
SIX = FOUR | {"fused_moe_fwd", "ring_attention"}
MARK = "recorded on 21 November 2026, 4 H200"


@pytest.fixture(autouse=True)
def _plain_assets(settings):
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}


SHIPPED = recorded.FOLDER
"""The folder itself; the fixture `folder` stands in for it."""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A copy of what ships, judged at the present revisions, to be changed; the site's own folder in these tests."""
    for path in [*recorded.FOLDER.glob("*.py"), *recorded.FOLDER.glob("*.json")]:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    summary = tmp_path / "judgements_2026-11-21.json"
    held = json.loads(summary.read_text())
    for judgement in held["judgements"]:
        judgement["revision"] = registry.revision(judgement["problem"])
    summary.write_text(json.dumps(held))
    monkeypatch.setattr(recorded, "FOLDER", tmp_path)
    return tmp_path


def key_of(problem, profile="h200x4-nomc"):
    return queries.BoardKey(problem=problem, profile=profile, revision=registry.revision(problem))


def test_kernels_are_taken_as_judged_and_marked():
    taken = recorded.add()
    assert (taken.added, taken.refused) == (8, ())
    assert set(Submission.objects.values_list("problem", flat=True)) == FOUR
    (entry,) = queries.earlier_entries(key_of("hyena_forward_cp"))
    assert (entry.author, entry.score, entry.low, entry.high) == ("pkb", 4.53, 4.2982, 4.6991)
    assert (entry.rule, entry.recorded, entry.is_source_public) == (1, MARK, True)
    assert entry.judged_at.date().isoformat() == "2026-11-21"


def test_they_stand_in_no_order_with_what_is_timed_by_the_present_rule():
    recorded.add()
    assert SCORE_RULE != 1
    assert queries.board("hyena_forward_cp", profile="h200x4-nomc") == ()
    assert not PersonStanding.objects.exists()


def test_taking_them_twice_changes_nothing():
    recorded.add()
    before = set(Report.objects.values_list("pk", flat=True))
    taken = recorded.add()
    assert (taken.added, taken.kept) == (0, 8)
    assert set(Report.objects.values_list("pk", flat=True)) == before


def test_an_update_that_ships_them_at_new_revisions_replaces_them(folder):
    summary = folder / "judgements_2026-11-21.json"
    present = summary.read_text()
    held = json.loads(present)
    for judgement in held["judgements"]:
        judgement["revision"] = "0123456789abcdef"
    summary.write_text(json.dumps(held))
    before = recorded.add(folder)
    summary.write_text(present)
    assert recorded.add(folder) == replace(before, older=0)
    assert recorded.add(folder).kept == before.added
    revisions = Evaluation.objects.values_list("submission__problem", "problem_revision")
    assert all(revision == registry.revision(problem) for problem, revision in revisions)


def test_every_page_that_shows_one_shows_the_mark(client):
    recorded.add()
    evaluation = Evaluation.objects.get(profile="h200x4-nomc", submission__problem="hyena_forward_cp")
    for address in (
        "/",
        "/leaderboards/",
        "/leaderboards/problems/?profile=h200x4-nomc",
        "/leaderboards/people/pkb/",
        "/problems/hyena_forward_cp/leaderboard/",
        f"/submissions/{evaluation.submission_id}/?evaluation={evaluation.pk}",
    ):
        response = client.get(address)
        assert response.status_code == 200, address
        page = response.content.decode()
        assert "recorded on 21 November 2026" in page, address
        assert "timed by the earlier rule" in page.lower(), address


def test_the_api_and_the_exports_carry_the_mark(client):
    recorded.add()
    (entry,) = client.get("/api/v1/problems/hyena_forward_cp/leaderboard/?profile=h200x4-nomc").json()["earlier"]
    assert entry["recorded"] == MARK
    for name in ("leaderboards", "evaluations"):
        table = tables.get_table(name)
        rows = [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.rows()]
        assert {row["recorded_on"] for row in rows} == {"2026-11-21"}


def test_the_page_of_one_says_what_was_kept_of_each_size(client):
    recorded.add()
    evaluation = Evaluation.objects.get(profile="h200x4-nomc", submission__problem="hyena_forward_cp")
    page = client.get(f"/submissions/{evaluation.submission_id}/?evaluation={evaluation.pk}").content.decode()
    timing = page.split('id="timing"')[1].split("</section>")[0]
    assert "4.808" in timing  # 774.6 over 161.1 at base
    assert "no interval stored" in timing
    assert "0 calls" not in timing


def test_what_was_judged_at_an_older_revision_stands_on_no_present_board_and_is_counted(folder):
    path = folder / "judgements_2026-11-21.json"
    summary = json.loads(path.read_text())
    summary["judgements"][0]["revision"] = "0" * 16
    path.write_text(json.dumps(summary))
    taken = recorded.add()
    assert (taken.added, taken.older) == (8, 1)
    assert queries.earlier_entries(key_of("gemm_allreduce")) == ()


def test_a_report_that_says_more_than_its_blocks_give_is_left_out(folder):
    path = folder / "judgements_2026-11-21.json"
    summary = json.loads(path.read_text())
    summary["judgements"][0]["score"] = 1.88
    path.write_text(json.dumps(summary))
    taken = recorded.add(folder)
    assert taken.added == 7
    (refusal,) = taken.refused
    assert "gemm_allreduce on h200x4-nomc" in refusal
    assert "says score 1.88, its blocks give 1.8715" in refusal


def test_a_report_on_another_source_is_left_out(folder):
    (folder / "gemm_allreduce.py").write_text("def solution():\n    pass\n")
    taken = recorded.add(folder)
    assert taken.added == 6
    assert all("the source has changed since the evaluation" in refusal for refusal in taken.refused)


def test_whole_reports_are_taken_too_and_computed_again_from_their_calls(folder, alice):
    # A report by the present rule without a record of its calls is none that could be checked.
    evaluation = evaluation_of(submit(alice))
    report = json.loads(report_on(evaluation, low=1.2).to_json())
    source = recorded.SourceBundle(
        files=(recorded.SourceFile(path="solution.py", text=(folder / "gemm_allreduce.py").read_text()),)
    )
    report |= {
        "problem": "gemm_allreduce",
        "revision": registry.revision("gemm_allreduce"),
        "source_digest": source.digest,
        "backend": "cuda",
        "profile": "h200x4-nomc",
        "finished_at": datetime(2026, 11, 23, 12, tzinfo=UTC).isoformat(),
    }
    (folder / "reports").mkdir()
    (folder / "reports" / "gemm_allreduce.json").write_text(json.dumps(report))
    taken = recorded.add(folder)
    assert taken.added == 8
    (refusal,) = taken.refused
    assert "the report has no record of its calls" in refusal
    # One of the first schema holds its blocks, which give its score.
    report["schema_version"] = 1
    report["timing"] |= {"blocks": [1.2] * 3 + [1.3] * 6 + [1.4] * 3, "score": 1.3, "low": 1.2, "high": 1.4}
    assert EvaluationReport.from_json(json.dumps(report)).timing.rule == 1
    (folder / "reports" / "gemm_allreduce.json").write_text(json.dumps(report))
    assert recorded.add(folder).added == 1


def test_removing_them_leaves_what_this_site_judged(alice, node):
    mine = submit(alice)
    recorded.add()
    assert recorded.remove() == 8
    assert list(Submission.objects.all()) == [mine]
    assert Evaluation.objects.get() == evaluation_of(mine)
    assert not Standing.objects.exists()
    assert not Record.objects.exists()
    assert not Board.objects.filter(entries__gt=0).exists()
    assert recorded.remove() == 0


@pytest.mark.parametrize(("setting", "there"), [(True, 8), (False, 0), (None, 3)])
def test_the_switch_adds_removes_or_leaves_alone(settings, setting, there):
    recorded.add()
    keep = list(Evaluation.objects.values_list("pk", flat=True)[:3])
    Report.objects.exclude(evaluation__in=keep).delete()
    Evaluation.objects.exclude(pk__in=keep).delete()
    settings.RECORDED = setting
    call_command("recorded")
    assert Evaluation.objects.count() == there


def test_an_option_goes_before_the_switch(settings):
    settings.RECORDED = False
    call_command("recorded", "--add")
    assert Evaluation.objects.count() == 8
    call_command("recorded", "--remove")
    assert Evaluation.objects.count() == 0


def test_somebody_elses_account_of_that_name_gets_nothing(settings):
    User.objects.create_user("pkb", password="a long pass phrase")
    with pytest.raises(CommandError, match="belongs to somebody"):
        call_command("recorded", "--add")
    # A site that starts goes on without.
    settings.RECORDED = True
    call_command("recorded")
    assert not Submission.objects.exists()


def test_the_reference_is_a_row_of_every_board_with_its_share_of_the_floor(client, monkeypatch):
    # As if measured at the present revision: what ships may lag behind the problems.
    shipped = measurements.baselines("h200x2-nomc")
    table = shipped.baselines["gemm_allreduce"]
    monkeypatch.setattr(measurements, "baseline", lambda _slug, *, size, **_: table[size])
    page = client.get("/problems/gemm_allreduce/leaderboard/?profile=h200x2-nomc").content.decode()
    row = page.split('<tr class="is-reference">')[1].split("</tr>")[0]
    measured = reference_row(registry.get("gemm_allreduce"), profile="h200x2-nomc")
    assert [size.size for size in measured.sizes] == ["base", "large"]
    shares = [size.floor_us / size.time_us for size in measured.sizes]
    assert measured.utilisation == pytest.approx((shares[0] * shares[1]) ** 0.5)
    assert f"baseline of {shipped.measured_at[:10]}" in row
    assert "not measured" not in row
    # Where nobody has measured it, the row says so.
    page = client.get("/problems/allreduce/leaderboard/?profile=cpux2").content.decode()
    assert "not measured" in page.split('<tr class="is-reference">')[1].split("</tr>")[0]


def test_boards_open_where_something_stands(client):
    recorded.add()
    board = client.get("/problems/gemm_allreduce/leaderboard/")
    assert board.context["profile"].name in ("h200x2-nomc", "h200x4-nomc")
    overview = client.get("/leaderboards/problems/")
    assert overview.context["profile"].name in ("h200x2-nomc", "h200x4-nomc")
    for response in (board, overview):
        assert "recorded on 21 November 2026" in response.content.decode()


@pytest.fixture
def judged_anew(folder):
    """A whole report by the present rule on one of the kernels, beside the others."""
    source = recorded.SourceBundle(
        files=(recorded.SourceFile(path="solution.py", text=(folder / "gemm_allreduce.py").read_text()),)
    )
    report = msgspec.structs.replace(
        report_of(series(size="base", candidate_us=100.0, reference_us=(200.0,) * 12)),
        problem="gemm_allreduce",
        revision=registry.revision("gemm_allreduce"),
        source_digest=source.digest,
        backend=Backend.CUDA,
        profile="h200x4-nomc",
        world_size=4,
        started_at="2026-11-23T12:00:00+00:00",
        finished_at="2026-11-23T12:00:09+00:00",
    )
    (folder / "reports").mkdir()
    path = folder / "reports" / "gemm_allreduce_h200x4-nomc.json.gz"
    path.write_bytes(gzip.compress(report.to_json().encode()))
    return report


def test_a_report_by_the_present_rule_ranks_and_is_marked(client, folder, judged_anew):
    assert recorded.add(folder).added == 9
    (row,) = queries.board("gemm_allreduce", profile="h200x4-nomc")
    assert (row.place, row.recorded) == (1, "recorded on 23 November 2026, 4 H200")
    assert row.score == pytest.approx(judged_anew.timing.score)
    # The one by the earlier rule stays apart.
    (earlier,) = queries.earlier_entries(key_of("gemm_allreduce"))
    assert earlier.recorded == MARK
    mark = "recorded on 23 November 2026, 4 H200"
    for address in (
        "/",
        "/leaderboards/",
        "/leaderboards/problems/",
        "/leaderboards/records/",
        "/leaderboards/people/pkb/",
        "/problems/gemm_allreduce/leaderboard/",
        "/problems/gemm_allreduce/records/",
        "/problems/gemm_allreduce/scaling/",
    ):
        assert mark in client.get(address).content.decode(), address
    (entry,) = client.get("/api/v1/problems/gemm_allreduce/leaderboard/?profile=h200x4-nomc").json()["entries"]
    assert entry["recorded"] == mark
    assert PersonStanding.objects.get(profile="h200x4-nomc").faster == 1


def test_removing_one_lets_what_this_site_judged_of_it_take_its_place(folder, judged_anew, node):
    recorded.add(folder)
    submission = Evaluation.objects.get(recorded_on="2026-11-23").submission
    again = actions.queue_evaluation(submission, profile="h200x4-nomc", mode="ranked")
    Evaluation.objects.filter(pk=again.pk).update(state="running", lease="a", node=node, slot_index=0)
    assert actions.record_delivery(delivery_of(again, node=node.name, low=1.1), timezone.now())
    assert Standing.objects.get(score_rule=SCORE_RULE).evaluation_id != again.pk  # the recorded one is faster
    recorded.remove()
    (row,) = queries.board("gemm_allreduce", profile="h200x4-nomc")
    assert (row.evaluation_id, row.low, row.recorded) == (again.pk, 1.1, "")
    assert Board.objects.get(entries__gt=0).record_low == 1.1
    assert PersonStanding.objects.get(profile="h200x4-nomc").solved == 1


def test_a_problems_page_shows_what_was_recorded_by_the_earlier_rule_instead_of_nothing(client):
    recorded.add()
    board = client.get("/problems/hyena_forward_cp/").content.decode().split('id="board"')[1].split("</section>")[0]
    assert "No entry has been timed by the current rule yet" in board
    assert "pkb, h200x4-nomc" in board


@pytest.fixture
def with_reports(folder):
    """The whole reports that ship too, at the present revisions."""
    (folder / "reports").mkdir()
    for path in (SHIPPED / "reports").glob("*.json.gz"):
        report = json.loads(gzip.decompress(path.read_bytes()))
        report["revision"] = registry.revision(report["problem"])
        (folder / "reports" / path.name).write_bytes(gzip.compress(json.dumps(report).encode()))
    return folder


def test_everything_that_ships_is_of_the_kernel_that_ships():
    taken = recorded.add(SHIPPED)
    assert taken.refused == ()
    assert taken.added == len(list(recorded.shipped(SHIPPED)))


@pytest.mark.parametrize("problem", sorted(SIX))
def test_a_fresh_site_ranks_what_two_gpus_were_judged_on_by_the_present_rule(client, with_reports, problem):
    recorded.add()
    (row,) = queries.board(problem, profile="h200x2-nomc")
    assert (row.place, row.author, row.recorded) == (1, "pkb", "recorded on 23 November 2026, 2 H200")
    for address in ("/", f"/problems/{problem}/leaderboard/?profile=h200x2-nomc"):
        assert row.recorded in client.get(address).content.decode(), address
    # One by the earlier rule stands beside it where the text is the same.
    earlier = [entry.recorded for entry in queries.earlier_entries(key_of(problem, profile="h200x2-nomc"))]
    assert earlier == ["recorded on 21 November 2026, 2 H200"] * (problem in FOUR)


def test_a_report_on_a_kernel_that_ships_can_be_shipped_beside_it(folder, judged_anew, capsys):
    (given,) = (folder / "reports").iterdir()
    call_command("recorded", "--ship", str(given))
    target = folder / "reports" / "gemm_allreduce_h200x4-nomc_2026-11-23.json.gz"
    assert str(target) in capsys.readouterr().out
    given.unlink()
    assert recorded.add(folder).added == 9
    assert queries.board("gemm_allreduce", profile="h200x4-nomc")[0].score == pytest.approx(judged_anew.timing.score)


def test_a_report_on_another_text_is_not_shipped(folder, judged_anew, capsys):
    (given,) = (folder / "reports").iterdir()
    given.rename(folder / "given.json.gz")
    (folder / "gemm_allreduce.py").write_text("def solution():\n    pass\n")
    with pytest.raises(CommandError, match="2 of 2 reports refused"):
        call_command("recorded", "--ship", str(folder / "given.json.gz"), str(folder / "missing.json"))
    said = capsys.readouterr().err
    assert "the source has changed since the evaluation" in said
    assert "missing.json is no report" in said
    assert not list((folder / "reports").iterdir())
