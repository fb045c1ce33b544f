"""Runs that ship as what was judged of them: out of one site, into another, marked, without the programs' text."""

import json
import lzma
import uuid

import msgspec
import pytest
from django.utils import timezone

from evaluator.contract import BuildResult, EvaluationReport, SourceBundle, SourceFile, Verdict
from portal.dispatcher import offline
from portal.exports import tables
from portal.nodes import actions as nodes
from portal.nodes.models import Node
from portal.operations.audit import audit
from portal.operations.recorded import kernels
from portal.operations.recorded import runs as recorded
from portal.operations.recorded.reports import NotRecorded
from portal.runs import queries
from portal.runs.actions import decide
from portal.runs.models import Attempt, LanguageModel, Run, RunEvent
from portal.submissions import actions as submissions
from portal.submissions.models import Evaluation, GpuUse, Report, Source, Submission
from problems import registry
from tests.evaluator.timed_records import report_of, series
from tests.portal.factories import report_on, submit
from tests.portal.runs.rows import add, line, make_run
from tests.portal.test_offline import stored
from tools.recorded import export
from tools.recorded import main as tool

pytestmark = pytest.mark.django_db
PROBLEMS = len(registry.problems())
WHO = "Published by its vendor at example.org in June 2026, Apache License 2.0."
DOUBLES = "# the verdict is COMPILE_ERROR\ndef solution(tensor):\n    doubled = tensor.clone() * 2\n    return doubled"


def judged_run(alice, folder):
    """A run of four programs: one timed, one that did not compile, one without a solution, one not judged yet."""
    run = make_run(alice, backend="triton", profile="h200x2-nomc", model="GPT-5.5", version="")
    doubles = {"source": DOUBLES, "backend": "cuda"}
    without = line("reduce", source="x = 1\n")
    add(
        run, line() | doubles, line("allgather") | {**doubles, "source": f"# mine\n{DOUBLES}"}, without, line("scatter")
    )
    nodes.register_node("carried")
    reports = [timed(run.attempts.get(problem="allreduce")), broken(run.attempts.get(problem="allgather"))]
    taken, refused = offline.import_reports(stored(folder / "reports", *reports), node=Node.objects.get(name="carried"))
    assert (taken, refused) == ({"recorded": 2}, [])
    return run


def facts(attempt):
    base = report_on(attempt.evaluation, verdict=Verdict.WRONG_RESULT)
    names = ("evaluation_id", "problem", "revision", "source_digest", "backend", "profile", "mode")
    times = {"started_at": "2026-11-23T01:00:00+00:00", "finished_at": "2026-11-23T01:00:09+00:00"}
    return {name: getattr(base, name) for name in names} | times


def timed(attempt):
    return msgspec.structs.replace(report_of(series()), **facts(attempt))


def broken(attempt):
    entry = attempt.submission.source.files.entry
    log = f"solution.py(2): error: nothing works\n  3 | {entry.splitlines()[3]}\n"
    build = BuildResult(succeeded=False, seconds=1.0, cached=False, log=log)
    report = report_on(attempt.evaluation, verdict=Verdict.COMPILE_ERROR)
    return msgspec.structs.replace(report, build=build, **facts(attempt))


@pytest.fixture
def shipped(alice, tmp_path, monkeypatch):
    """The files of a run, which is no longer on the site that judged it; its programs' text by digest."""
    run = judged_run(alice, tmp_path)
    texts = {source.digest: source.files.entry for source in Source.objects.all()}
    folder = tmp_path / "runs"
    monkeypatch.setattr(recorded, "FOLDER", folder)
    assert export(run, name="writer-triton", published_by=WHO) == (2, 4)
    forget(run)
    return folder, texts


def forget(run):
    RunEvent.objects.all().delete()
    Attempt.objects.all().delete()
    Run.objects.filter(pk=run.pk).delete()
    LanguageModel.objects.all().delete()
    GpuUse.objects.all().delete()
    Report.objects.all().delete()
    Evaluation.objects.all().delete()
    Submission.objects.all().delete()
    Source.objects.all().delete()


def loaded():
    assert recorded.add() == (1, [])
    return Run.objects.get()


def test_nothing_that_ships_holds_a_line_of_a_program(shipped):
    folder, texts = shipped
    everything = (folder / "writer-triton.json").read_text()
    everything += lzma.decompress((folder / "writer-triton.reports.xz").read_bytes()).decode()
    assert "nothing works" in everything
    assert "(a line of the source)" in everything
    for text in texts.values():
        for each in (entry.strip() for entry in text.splitlines()):
            assert len(each) < 12 or each not in everything, each


def test_a_run_comes_back_as_it_was_judged(shipped):
    run = loaded()
    verdicts = {attempt.problem: (attempt.state, attempt.verdict) for attempt in run.attempts.all()}
    assert verdicts == {
        "allreduce": ("ended", "PASSED"),
        "allgather": ("ended", "COMPILE_ERROR"),
        "reduce": ("ended", "IMPORT_ERROR"),
        "scatter": ("pending", ""),
    }
    assert run.recorded == "recorded on 23 November 2026, 2 H200"
    figures = queries.run_figures(run)
    assert (figures.solved, figures.without_verdict.pending, figures.is_complete) == (1, 1, False)
    assert figures.answered == "2 cuda, 2 triton"
    attempt = run.attempts.get(problem="allreduce")
    report = EvaluationReport.from_json(json.dumps(attempt.evaluation.reports.get().content))
    assert (attempt.score, report.timing.score) == (attempt.evaluation.score, attempt.score)
    assert report.source_digest == attempt.source_digest
    assert run.attempts.get(problem="allgather").message == "the verdict is COMPILE_ERROR"
    assert [name for name, rows in audit(timezone.now()).items() if rows] == []


def test_pages_say_where_it_was_judged_what_is_missing_and_who_published_it(shipped, client):
    run = loaded()
    mark, submission = "ecorded on 23 November 2026, 2 H200", run.attempts.get(problem="allreduce").submission_id
    # One passed, one waits, one cannot be judged on two ranks, and the others failed or have no program.
    bounds = f"{100 / PROBLEMS:.1f} % to {300 / PROBLEMS:.1f} %"
    apart = ("Incomplete: not ranked", "3 of 4", bounds, f"{PROBLEMS - 5} problems")
    told = ("asked for triton", "not measured here, and not comparable")
    pages = {
        "/leaderboards/models/?profile=h200x2-nomc": (mark, *apart, "asked for triton, answered in"),
        "/leaderboards/": (mark, *apart),
        f"/models/{run.model.slug}/": (mark, "incomplete: not ranked", "3 of 4 judged", bounds),
        f"/runs/compare/?a={run.pk}&b={run.pk}": (mark, "3 of 4 judged", bounds),
        f"/runs/{run.pk}/": (mark, "3 of 4 programs were judged", "incomplete, not ranked", bounds, WHO, *told),
        f"/runs/{run.pk}/problems/scatter/": (mark, "Not judged yet", "3 of 4 programs judged"),
        f"/runs/{run.pk}/problems/allreduce/": (mark, f"/submissions/{submission}/"),
        f"/submissions/{submission}/": (mark, WHO, "does not keep the program"),
    }
    for address, words in pages.items():
        response = client.get(address)
        assert response.status_code == 200, address
        page = response.content.decode()
        assert [word for word in words if word not in page] == [], address
        # No interval and no place: nobody knows what the fourth would have been.
        assert "correct@1, 1.1" not in page, address
        assert not any(f'aria-label="{table}' in page for table in ("Model leaderboard", "Leading models")), address
    main = client.get(f"/runs/{run.pk}/").content.decode().partition("<main")[2]
    assert "hx-get" not in main.split('id="problems"')[0]


def test_the_api_and_the_exports_carry_the_mark(shipped, client):
    run = loaded()
    told = client.get(f"/api/v1/runs/{run.pk}/").json()
    assert (told["recorded_on"], told["recorded_where"]) == ("2026-11-23", "2 H200")
    assert told["verification"] == "recorded"
    found = told["figures"]
    assert (found["is_complete"], found["judged"], found["programs"]) == (False, 3, 4)
    assert (found["correct_at_1"], found["correct_at_k"], found["fast"]) == (None, None, [])
    assert found["bounds"] == {"low": pytest.approx(1 / PROBLEMS), "high": pytest.approx(3 / PROBLEMS)}
    (board,) = client.get("/api/v1/leaderboards/models/?profile=h200x2-nomc").json()["rows"]
    assert (board["place"], board["fast_p"], board["prompt_version"]) == (None, None, "")
    table = tables.get_table("runs")
    (row,) = [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.rows()]
    assert (row["recorded_on"], row["backend"]) == ("2026-11-23", "triton")
    assert (row["correct_at_1"], row["judged"], row["programs"]) == (None, 3, 4)


def test_nobody_reads_or_judges_again_what_is_not_kept(shipped, client, admin_client):
    run = loaded()
    submission = run.attempts.get(problem="allreduce").submission
    for reader in (client, admin_client):
        assert reader.get(f"/submissions/{submission.pk}/source/?file=solution.py").status_code == 404
    assert submissions.rejudge(Evaluation.objects.filter(submission=submission)) == []


def test_whoever_submits_the_same_program_is_judged_by_its_text(shipped, bob):
    run = loaded()
    digest = run.attempts.get(problem="allreduce").source_digest
    text = shipped[1][digest]
    mine = submit(bob, files=SourceBundle(files=(SourceFile(path="solution.py", text=text),)))
    assert mine.source.digest == digest
    mine.source.refresh_from_db()
    assert mine.source.files.entry == text


def test_taking_it_twice_changes_nothing_and_removing_it_leaves_no_trace(shipped, alice):
    mine = submit(alice)
    loaded()
    assert recorded.add()[0] == 0
    kernels.remove()
    assert Run.objects.count() == 1
    assert recorded.remove() == 1
    assert [model.objects.count() for model in (Run, Attempt, RunEvent, Report, LanguageModel)] == [0] * 5
    assert list(Submission.objects.values_list("pk", flat=True)) == [mine.pk]
    assert Source.objects.count() == 1


def ships_without(folder, problem):
    """The files as they were before this problem's program was judged; returns what they hold today."""
    path = folder / "writer-triton.json"
    today = path.read_text()
    held = json.loads(today)
    for program in held["programs"]:
        if program["problem"] == problem:
            program |= {"evaluation": "", "verdict": None}
    path.write_text(json.dumps(held))
    return today


def test_an_update_that_ships_more_judgements_replaces_the_run(shipped):
    folder, _ = shipped
    today = ships_without(folder, "allgather")
    earlier = loaded()
    assert earlier.attempts.get(problem="allgather").state == "pending"
    assert recorded.add()[0] == 0
    (folder / "writer-triton.json").write_text(today)
    assert recorded.add() == (1, [])
    run = Run.objects.get()
    assert (run.pk, run.model) == (earlier.pk, earlier.model)
    assert run.attempts.get(problem="allgather").verdict == "COMPILE_ERROR"
    assert (run.attempts.count(), Submission.objects.count(), Report.objects.count()) == (4, 2, 2)
    assert recorded.add()[0] == 0


def test_a_run_that_an_operator_has_decided_on_is_not_replaced(shipped, admin_user):
    folder, _ = shipped
    today = ships_without(folder, "allgather")
    run = loaded()
    decide(run, kind="quarantined", reason="Its programs are another model's.", by=admin_user)
    (folder / "writer-triton.json").write_text(today)
    assert recorded.add()[0] == 0
    assert Run.objects.get().is_quarantined
    assert recorded.remove() == 1


def test_a_report_that_contradicts_its_calls_is_named_and_counts_as_not_judged(shipped):
    folder, _ = shipped
    path = folder / "writer-triton.reports.xz"
    reports = [json.loads(each) for each in lzma.decompress(path.read_bytes()).splitlines()]
    for report in reports:
        if report["timing"]:
            report["timing"]["score"] *= 1.01
    path.write_bytes(lzma.compress("".join(f"{json.dumps(each)}\n" for each in reports).encode()))
    added, refused = recorded.add()
    assert added == 1
    assert "writer-triton: allreduce: score: the report says" in refused[0]
    assert Run.objects.get().attempts.get(problem="allreduce").state == "pending"
    assert recorded.add()[0] == 0


def test_the_command_exports_and_says_what_is_wrong(alice, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(recorded, "FOLDER", tmp_path / "runs")
    run = judged_run(alice, tmp_path)
    for key, name, who, words in (
        (run.pk, "writer", "", "Nobody is named"),
        (run.pk, "../writer", WHO, "no name of a recorded run"),
        (uuid.uuid4(), "writer", WHO, "There is no such run"),
        ("writer", "writer", WHO, "There is no such run"),
    ):
        assert tool(["export", str(key), name, "--published-by", who]) == 1
        assert words in capsys.readouterr().err
    assert tool(["export", str(run.pk), "writer", "--published-by", WHO]) == 0
    assert "writer: 2 reports of 4 programs" in capsys.readouterr().out
    assert recorded.add()[0] == 0  # it was judged here
    (tmp_path / "runs" / "writer.json").write_text("{}")
    with pytest.raises(NotRecorded, match="is no recorded run"):
        recorded.add()


def test_what_ships_agrees_with_its_own_calls():
    added, refused = recorded.add()
    assert refused == []
    assert added == len(list(recorded.FOLDER.glob("*.json")))
    for run in Run.objects.all():
        assert run.attempts.exclude(verdict="").exists()
        assert "published under the Apache License 2.0" in run.notes
