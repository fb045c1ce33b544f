"""Day one: the kernels and reports that ship with the problems stand on the boards, marked, and go without a trace."""

import json
import shutil

import msgspec
import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from evaluator.contract import Backend, Mode
from portal.accounts.models import User
from portal.catalog import measurements
from portal.catalog.references import reference_row
from portal.exports import tables
from portal.operations.recorded import kernels, runs
from portal.operations.recorded.reports import read_reports, read_source
from portal.ranking import queries
from portal.ranking.models import Board, PersonStanding, Record, Standing
from portal.runs.models import Run
from portal.submissions import actions
from portal.submissions.models import Evaluation, Report, Submission
from problems import registry
from tests.evaluator.timed_records import report_of, series
from tests.portal.factories import delivery_of, evaluation_of, submit
from tools.recorded import main as tool
from tools.recorded import write_reports

pytestmark = pytest.mark.django_db
SIX = {
    "fused_moe_fwd",
    "gemm_allreduce",
    "hyena_forward_cp",
    "ring_attention",
    "sam3_allgather_iou_suppression",
    "vocab_parallel_log_prob_topk",
}
MARK = "recorded on 29 November 2026, 2 H200"
PROFILE = "h200x2-nomc"


@pytest.fixture(autouse=True)
def _plain_assets(settings):
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}


SHIPPED = kernels.FOLDER
"""The folder itself; the fixture `folder` stands in for it."""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The kernels and their ranked reports on 2 GPUs, at the present revisions; the site's own folder here."""
    for path in SHIPPED.glob("*.py"):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(kernels, "FOLDER", tmp_path)
    reports = [
        each
        for each in read_reports(SHIPPED / kernels.REPORTS).values()
        if (each.mode, each.profile) == (Mode.RANKED, PROFILE)
    ]
    rewrite(reports, lambda report: {"revision": registry.revision(report.problem)})
    return tmp_path


def rewrite(reports, change):
    """Let these reports ship instead, each with what `change` says of it."""
    changed = [msgspec.structs.replace(report, **change(report)) for report in reports]
    write_reports(kernels.FOLDER / kernels.REPORTS, changed)


def shipped():
    return list(read_reports(kernels.FOLDER / kernels.REPORTS).values())


def test_everything_that_ships_is_of_the_kernel_that_ships(monkeypatch):
    monkeypatch.setattr(kernels, "FOLDER", SHIPPED)
    added, refused = kernels.add()
    assert (added, refused) == (len(shipped()), [])


def test_the_sweeps_of_kernels_stand_on_their_problems_and_not_on_boards(client, monkeypatch):
    monkeypatch.setattr(kernels, "FOLDER", SHIPPED)
    kernels.add()
    page = client.get("/problems/hyena_forward_cp/?swept=h200x2-nomc").content.decode()
    assert "<strong>pkb</strong>: faster at every size measured." in page
    assert queries.board("hyena_forward_cp", profile="h100x2-nomc") == ()


@pytest.mark.parametrize("problem", sorted(SIX))
def test_a_fresh_site_ranks_what_two_gpus_were_judged_on_and_marks_it(client, problem):
    assert kernels.add() == (6, [])
    (row,) = queries.board(problem, profile=PROFILE)
    assert (row.place, row.author, row.recorded, row.is_source_public) == (1, "pkb", MARK, True)
    [report] = [report for report in shipped() if report.problem == problem]
    assert (row.score, row.low, row.high) == (report.timing.score, report.timing.low, report.timing.high)
    assert str(row.evaluation_id) == report.evaluation_id
    for address in ("/", f"/problems/{problem}/leaderboard/?profile={PROFILE}"):
        assert MARK in client.get(address).content.decode(), address


def test_every_page_that_shows_one_shows_the_mark(client):
    kernels.add()
    evaluation = Evaluation.objects.get(submission__problem="gemm_allreduce")
    for address in (
        "/",
        "/leaderboards/",
        "/problems/",
        "/leaderboards/records/",
        "/leaderboards/people/pkb/",
        "/problems/gemm_allreduce/leaderboard/",
        "/problems/gemm_allreduce/records/",
        "/problems/gemm_allreduce/scaling/",
        f"/submissions/{evaluation.submission_id}/?evaluation={evaluation.pk}",
    ):
        response = client.get(address)
        assert response.status_code == 200, address
        assert MARK[1:] in response.content.decode(), address


def test_what_a_factor_rests_on_stands_beside_it_and_on_the_entrys_page(client):
    kernels.add()
    entry = Submission.objects.get(problem="vocab_parallel_log_prob_topk")
    for address, said in (
        ("/", "against a sort of all logits"),
        (f"/problems/{entry.problem}/leaderboard/", "against a sort of all logits"),
        (f"/submissions/{entry.pk}/", "each position has 16 leading logits"),
    ):
        assert said in client.get(address).content.decode(), address


def test_a_table_says_once_what_its_sign_means_and_home_shows_what_is_new_only_if_something_is(client, alice, node):
    kernels.add()
    home = client.get("/").content.decode()
    assert home.count(f"<b>R</b>: {MARK}. Not judged by this site.") == 1
    assert home.count(">R</abbr>") == 6
    assert "What a verdict looks like" in home
    assert "Newest entries" not in home
    own = evaluation_of(submit(alice, problem="allreduce", profile="cpux2"))
    Evaluation.objects.filter(pk=own.pk).update(state="running", lease="a", node=node, slot_index=0)
    assert actions.record_delivery(delivery_of(own, node=node.name), timezone.now())
    home = client.get("/").content.decode()
    assert "What a verdict looks like" not in home
    assert "Newest entries" in home


def test_the_api_and_the_exports_carry_the_mark(client):
    kernels.add()
    (entry,) = client.get(f"/api/v1/problems/hyena_forward_cp/leaderboard/?profile={PROFILE}").json()["entries"]
    assert entry["recorded"] == MARK
    for name in ("leaderboards", "evaluations"):
        table = tables.get_table(name)
        rows = [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.rows()]
        assert {row["recorded_on"] for row in rows} == {"2026-11-29"}


def test_boards_open_where_something_stands(client):
    kernels.add()
    for address in ("/problems/gemm_allreduce/leaderboard/", "/problems/"):
        response = client.get(address)
        assert response.context["profile"].name == PROFILE
        assert MARK in response.content.decode()


def test_adding_them_twice_changes_nothing():
    kernels.add()
    before = set(Report.objects.values_list("pk", flat=True))
    assert kernels.add() == (0, [])
    assert set(Report.objects.values_list("pk", flat=True)) == before


def test_an_update_that_ships_them_at_new_revisions_replaces_them():
    present = shipped()
    rewrite(present, lambda _: {"revision": "0123456789abcdef"})
    assert kernels.add() == (6, [])
    assert queries.board("gemm_allreduce", profile=PROFILE) == ()
    rewrite(present, lambda _: {})
    assert kernels.add() == (6, [])
    assert kernels.add() == (0, [])
    revisions = Evaluation.objects.values_list("submission__problem", "problem_revision")
    assert len(revisions) == 6
    assert all(revision == registry.revision(problem) for problem, revision in revisions)


def test_a_report_that_says_more_than_its_calls_give_is_left_out():
    def raised(report):
        more = msgspec.structs.replace(report.timing, score=report.timing.high)
        return {"timing": more if report.problem == "gemm_allreduce" else report.timing}

    rewrite(shipped(), raised)
    added, refused = kernels.add()
    assert added == 5
    (refusal,) = refused
    assert f"gemm_allreduce on {PROFILE}: score: the report says" in refusal


def test_a_report_without_a_record_of_its_calls_is_left_out():
    rewrite(shipped()[:1], lambda _: {"record": None})
    added, refused = kernels.add()
    assert added == 0
    assert "the report has no record of its calls" in refused[0]


def test_a_report_on_another_source_is_left_out(folder):
    (folder / "gemm_allreduce.py").write_text("def solution():\n    pass\n")
    (folder / "ring_attention.py").unlink()
    added, refused = kernels.add()
    assert added == 4
    assert sorted(refusal.split(": ")[1].split(" /")[0] for refusal in refused) == [
        "the source has changed since the evaluation",
        "there is no source",
    ]


@pytest.mark.parametrize("data", [b"", b"no archive", b"{}"])
def test_a_file_that_holds_no_reports_is_named(folder, data):
    (folder / kernels.REPORTS).write_bytes(data)
    with pytest.raises(CommandError, match=r"kernels\.reports\.xz holds no reports"):
        call_command("recorded", "--add")


def test_removing_them_leaves_what_this_site_judged(alice):
    mine = submit(alice)
    kernels.add()
    assert kernels.remove() == 6
    assert list(Submission.objects.all()) == [mine]
    assert Evaluation.objects.get() == evaluation_of(mine)
    assert not Standing.objects.exists()
    assert not Record.objects.exists()
    assert not Board.objects.filter(entries__gt=0).exists()
    assert kernels.remove() == 0


def test_removing_one_lets_what_this_site_judged_of_it_take_its_place(node):
    kernels.add()
    submission = Submission.objects.get(problem="gemm_allreduce")
    again = actions.queue_evaluation(submission, profile=PROFILE, mode="ranked")
    Evaluation.objects.filter(pk=again.pk).update(state="running", lease="a", node=node, slot_index=0)
    assert actions.record_delivery(delivery_of(again, node=node.name, low=1.1), timezone.now())
    assert Standing.objects.get(problem="gemm_allreduce").evaluation_id != again.pk  # the recorded one is faster
    kernels.remove()
    (row,) = queries.board("gemm_allreduce", profile=PROFILE)
    assert (row.evaluation_id, row.low, row.recorded) == (again.pk, 1.1, "")
    assert Board.objects.get(entries__gt=0).record_low == 1.1
    assert PersonStanding.objects.get(profile=PROFILE).solved == 1


@pytest.fixture
def _without_runs(monkeypatch, tmp_path):
    """No run ships: checking the reports of those that do takes seconds."""
    monkeypatch.setattr(runs, "FOLDER", tmp_path / "runs")


@pytest.mark.usefixtures("_without_runs")
@pytest.mark.parametrize(("setting", "there"), [(True, 6), (False, 0), (None, 3)])
def test_the_switch_adds_removes_or_leaves_alone(settings, setting, there):
    kernels.add()
    keep = list(Evaluation.objects.values_list("pk", flat=True)[:3])
    Report.objects.exclude(evaluation__in=keep).delete()
    Evaluation.objects.exclude(pk__in=keep).delete()
    settings.RECORDED = setting
    call_command("recorded")
    assert Evaluation.objects.count() == there


def test_an_option_goes_before_the_switch_and_means_all_that_ships(settings, capsys):
    settings.RECORDED = False
    call_command("recorded", "--add")
    number = len(list(runs.shipped()))
    assert Run.objects.count() == number
    assert "6 recorded entries added" in capsys.readouterr().out
    assert kernels.remove() == 6
    call_command("recorded", "--remove")
    assert capsys.readouterr().out == f"{number} recorded runs of models removed\n"
    assert not Evaluation.objects.exists()
    assert not Submission.objects.exists()


@pytest.mark.usefixtures("_without_runs")
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


@pytest.fixture
def given(folder, tmp_path):
    """A whole report on one of the kernels, as a judge writes it, beside those that ship."""
    report = msgspec.structs.replace(
        report_of(series(size="base", candidate_us=100.0, reference_us=(200.0,) * 12)),
        evaluation_id="local",
        problem="gemm_allreduce",
        revision=registry.revision("gemm_allreduce"),
        source_digest=read_source(folder / "gemm_allreduce.py").digest,
        backend=Backend.CUDA,
        profile="h200x4-nomc",
        world_size=4,
        started_at="2026-11-23T12:00:00+00:00",
        finished_at="2026-11-23T12:00:09+00:00",
    )
    path = tmp_path / "given.json"
    path.write_text(report.to_json())
    return path


def test_a_report_on_a_kernel_that_ships_can_be_shipped_beside_it(folder, given, capsys):
    for _ in range(2):
        assert tool(["ship", str(given)]) == 0
        assert str(folder / kernels.REPORTS) in capsys.readouterr().out
    assert len(shipped()) == 7
    assert kernels.add()[0] == 7
    (row,) = queries.board("gemm_allreduce", profile="h200x4-nomc")
    assert row.score == pytest.approx(json.loads(given.read_text())["timing"]["score"])
    assert row.recorded == "recorded on 23 November 2026, 4 H200"
    assert PersonStanding.objects.get(profile="h200x4-nomc").faster == 1


def test_a_report_on_another_text_is_not_shipped(folder, given, capsys):
    (folder / "gemm_allreduce.py").write_text("def solution():\n    pass\n")
    assert tool(["ship", str(given), str(folder / "missing.json")]) == 1
    said = capsys.readouterr().err
    assert "the source has changed since the evaluation" in said
    assert "missing.json is no report" in said
    assert len(shipped()) == 6
