"""Evaluations judged on a machine without a network: the file that goes out, and the reports that come back."""

import gzip
import json
import stat

import msgspec
import pytest
from django.core.management import CommandError, call_command

from evaluator.batch import read_requests
from evaluator.contract import EvaluationReport, Verdict
from portal.dispatcher import offline
from portal.nodes import actions as nodes
from portal.nodes.models import Node
from portal.runs.models import AttemptState
from portal.submissions.models import Report, State
from tests.evaluator.timed_records import report_of, series
from tests.portal.factories import evaluation_of, report_on, submit
from tests.portal.runs.rows import add, line, make_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def node():
    nodes.register_node("carried")
    return Node.objects.get(name="carried")


def refused(evaluation, **changes):
    """A report on `evaluation` that has no times."""
    report = report_on(evaluation, verdict=Verdict.WRONG_RESULT)
    times = {"started_at": "2026-11-23T01:00:00+00:00", "finished_at": "2026-11-23T01:00:09+00:00"}
    return msgspec.structs.replace(report, **times, **changes)


def stored(folder, *reports):
    folder.mkdir(exist_ok=True)
    for number, report in enumerate(reports):
        (folder / f"{number}.json.gz").write_bytes(gzip.compress(report.to_json().encode()))
    return sorted(folder.iterdir())


def test_what_waits_goes_out_as_a_node_would_be_asked_run_by_run(alice, tmp_path):
    first, second = make_run(alice), make_run(alice, version="2")
    add(second, line("allgather"), line("allreduce"))
    add(first, line("allreduce", 1))
    submit(alice)
    path = tmp_path / "requests.jsonl.gz"
    call_command("offline", "requests", profile="cpux2", run=[str(second.pk), str(first.pk)], output=path, verbosity=0)
    wanted = read_requests(path)
    assert [request.problem for request in wanted] == ["allreduce", "allgather", "allreduce"]
    expected = [run.attempts.get(problem=slug).evaluation for run, slug in
                ((second, "allreduce"), (second, "allgather"), (first, "allreduce"))]  # fmt: skip
    for request, evaluation in zip(wanted, expected, strict=True):
        assert request.evaluation_id == str(evaluation.pk)
        assert request.source.digest == evaluation.submission.source.digest
        assert request.revision == evaluation.problem_revision
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    call_command("offline", "requests", profile="cpux2", output=path, verbosity=0)
    assert len(read_requests(path)) == 4


def test_a_report_that_comes_back_ends_its_evaluation_as_a_nodes_does(alice, node, tmp_path):
    run = make_run(alice)
    add(run, line())
    evaluation = run.attempts.get().evaluation
    taken, refusals = offline.import_reports(stored(tmp_path / "reports", refused(evaluation)), node=node)
    assert (taken, refusals) == ({"recorded": 1}, [])
    evaluation.refresh_from_db()
    assert (evaluation.state, evaluation.verdict, evaluation.node) == (State.FINISHED, "WRONG_RESULT", node)
    assert evaluation.finished_at.isoformat() == "2026-11-23T01:00:09+00:00"
    attempt = run.attempts.get()
    assert (attempt.state, attempt.verdict) == (AttemptState.ENDED, "WRONG_RESULT")
    again, _ = offline.import_reports(sorted((tmp_path / "reports").iterdir()), node=node)
    assert again == {"known": 1}
    assert Report.objects.count() == 1


def test_reports_that_do_not_fit_are_refused_and_leave_their_evaluations_waiting(alice, node, tmp_path):
    evaluation = evaluation_of(submit(alice))
    other_source = refused(evaluation, source_digest="0" * 64)
    without_record = report_on(evaluation)
    strange = refused(evaluation, evaluation_id="entry-allreduce")
    paths = stored(tmp_path / "reports", other_source, strange, without_record)
    (tmp_path / "reports" / "3.json").write_text("{}")
    taken, refusals = offline.import_reports([*paths, tmp_path / "reports" / "3.json"], node=node)
    assert taken == {"foreign": 1}
    assert ["source_digest" in refusals[0], "no record of its calls" in refusals[1]] == [True, True]
    assert "it is no report" in refusals[2]
    evaluation.refresh_from_db()
    assert (evaluation.state, evaluation.lease, evaluation.node) == (State.QUEUED, None, None)
    assert not Report.objects.exists()


def test_a_score_is_computed_again_on_the_way_in(alice, node, tmp_path):
    evaluation = evaluation_of(submit(alice))
    base = refused(evaluation)
    names = ("evaluation_id", "problem", "revision", "source_digest", "backend", "profile", "mode")
    facts = {name: getattr(base, name) for name in (*names, "started_at", "finished_at")}
    good = msgspec.structs.replace(report_of(series()), **facts)
    said = json.loads(good.to_json())
    said["timing"]["score"] *= 1.01
    forged = EvaluationReport.from_json(json.dumps(said))
    taken, refusals = offline.import_reports(stored(tmp_path / "forged", forged), node=node)
    assert (taken, len(refusals)) == ({}, 1)
    assert "score" in refusals[0]
    assert offline.import_reports(stored(tmp_path / "good", good), node=node)[0]["recorded"] == 1
    evaluation.refresh_from_db()
    assert evaluation.score == good.timing.score


def test_the_command_names_what_it_lacks(alice, tmp_path):
    with pytest.raises(CommandError, match="node_add nobody"):
        call_command("offline", "reports", str(tmp_path), node="nobody")
    with pytest.raises(CommandError, match="There is no such run"):
        call_command("offline", "requests", profile="cpux2", run=["nothing"], output=tmp_path / "x.gz")
    with pytest.raises(CommandError, match="no profile called"):
        call_command("offline", "requests", profile="cpux3", output=tmp_path / "x.gz")
    assert not (tmp_path / "x.gz").exists()
