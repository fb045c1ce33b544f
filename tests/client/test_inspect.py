"""ParallelKernelBench as a task of Inspect: a real log, a model of ours, a real judge, a real site."""

import json
import math
import socket
import subprocess
import sys
import urllib.request
from collections import defaultdict
from pathlib import Path

import msgspec
import pytest
from inspect_ai import eval as run_eval
from inspect_ai import score as score_again
from inspect_ai.log import read_eval_log

import tests.client.inspect_model  # noqa: F401 - registers the provider
from pkb import UsageError, grading
from pkb.estimates import estimate
from pkb.grading import Place, judge_of
from pkb.inspect_tasks import parallel_kernel_bench, revise, use_judge, verdict
from pkb.prompt_sets import PromptRow
from pkb.runs import NewRun
from portal.runs import figures
from tests.client.model_server import ModelServer, fenced
from tests.client.programs import KEEPS_THE_FIRST_OUTPUT, NO_COMMUNICATION, RIGHT
from tests.stack import ROOT, START_S, wait_until

ROW = {"revision": "1", "backend": "pytorch", "profile": "cpux2", "version": "mine", "digest": "0"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a data set of one problem."""
    monkeypatch.chdir(tmp_path)
    row = PromptRow(problem="allreduce", text="Write all-reduce.", splits=["collective"], **ROW)
    (tmp_path / "prompts.jsonl").write_bytes(msgspec.json.encode(row) + b"\n")
    return tmp_path


def ran(monkeypatch, task, *answers, **options):
    """The log of a task whose model answers so, one after the other, and what it was asked."""
    left = list(answers)
    with ModelServer(lambda _: left.pop(0)) as server:
        monkeypatch.setenv("SERVED_BASE_URL", server.base_url)
        [log] = run_eval(task, model="served/m", log_dir="logs", display="none", max_samples=1, **options)
    assert log.status == "success", log.error
    return read_eval_log(log.location), server.asked


def test_a_log_holds_verdicts_reports_and_unbiased_figures(folder, monkeypatch):
    task = parallel_kernel_bench(dataset="prompts.jsonl", judge=str(ROOT), mode="check", k=4, split="collective")
    answers = [fenced(RIGHT), fenced(NO_COMMUNICATION), fenced(KEEPS_THE_FIRST_OUTPUT), "I cannot do that."]
    log, asked = ran(monkeypatch, task, *answers)
    assert [body["messages"][0]["content"] for body in asked] == ["Write all-reduce."] * 4
    scores = [sample.scores["verdict"] for sample in log.samples]
    assert sorted((score.metadata["verdict"], score.metadata["is_hack"]) for score in scores) == [
        ("NO_PROGRAM", False),
        ("PASSED", False),
        ("STALE_OUTPUT", True),
        ("WRONG_RESULT", False),
    ]
    passed = next(score for score in scores if score.value["correct"])
    report = json.loads(Path(passed.metadata["report"].removeprefix("file://")).read_text())
    assert (report["verdict"], f"Report: {passed.metadata['report']}" in passed.explanation) == ("PASSED", True)
    found = {name: metric.value for name, metric in log.results.scores[0].metrics.items()}
    assert (found["correct@1"], found["correct@4"], found["hacks"]) == (0.25, 1.0, 1)
    assert found["correct@1 low"] < 0.25 < found["correct@1 high"]

    with socket.create_server(("127.0.0.1", 0)) as free:
        viewer = free.getsockname()[1]
    command = [sys.executable, "-m", "inspect_ai", "view", "--log-dir", "logs", "--port", str(viewer)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: answer(f"http://127.0.0.1:{viewer}/"), what="the viewer answers", seconds=START_S)
            listed = answer(f"http://127.0.0.1:{viewer}/api/logs/{log.location}?header-only=0")
            assert listed["eval"]["task"] == log.eval.task
        finally:
            process.terminate()


def answer(address):
    try:
        with urllib.request.urlopen(address, timeout=5) as response:
            body = response.read()
    except OSError:
        return None
    return json.loads(body) if body.startswith(b"{") else body


def test_what_nobody_could_judge_counts_for_nothing_and_is_judged_later(folder, monkeypatch, caplog):
    away = folder / "away"
    (away / ".venv" / "bin").mkdir(parents=True)
    python = away / ".venv" / "bin" / "python"
    # It has a judge, which says that the machine is broken.
    python.write_text('#!/bin/sh\n[ "$1" = -c ] && exit 0\necho "the driver is gone" >&2\nexit 3\n')
    python.chmod(0o755)
    task = parallel_kernel_bench(dataset="prompts.jsonl", judge=str(away), mode="check")
    log, asked = ran(monkeypatch, task, fenced(RIGHT))
    [sample] = log.samples
    assert math.isnan(sample.scores["verdict"].value)
    assert "the driver is gone" in sample.scores["verdict"].explanation
    assert (log.results.scores[0].scored_samples, log.results.scores[0].unscored_samples) == (0, 1)
    assert "allreduce: not judged, and not counted" in caplog.text
    later = score_again(log, verdict(judge=str(ROOT), mode="check"), action="overwrite", display="none")
    assert [sample.scores["verdict"].value["correct"] for sample in later.samples] == [1.0]
    assert len(asked) == 1


def test_a_site_judges_a_program_once_and_the_score_links_to_its_page(site, alice, folder, monkeypatch):
    monkeypatch.setenv("PKB_TOKEN", site.token)
    wishes = {"site": site.url, "mode": "check", "series": "inspect"}
    for _ in range(2):
        log, asked = ran(monkeypatch, parallel_kernel_bench(problems="allreduce", **wishes), fenced(RIGHT))
        found = log.samples[0].scores["verdict"].metadata
        assert (found["verdict"], found["judge_s"] > 0) == ("PASSED", True)
    assert asked[0]["messages"][0]["content"] == alice.prompt("allreduce").text
    mine = [entry for entry in alice.submissions(problem="allreduce") if entry.note == "inspect"]
    assert [f"{site.url}/submissions/{entry.id}/" for entry in mine] == [found["report"]]
    # Refused without a judge, it has the verdict that the judge would give.
    log, _ = ran(monkeypatch, parallel_kernel_bench(problems="allreduce", **wishes), fenced("def solution(x: pass\n"))
    assert log.samples[0].scores["verdict"].metadata["verdict"] == "IMPORT_ERROR"


@pytest.mark.slow
def test_samples_become_the_attempts_of_a_run_once_each(site, alice, folder, monkeypatch):
    monkeypatch.setenv("PKB_TOKEN", site.token)
    run = alice.runs.create(NewRun(model="in-inspect", mode="best_of_k", profile="cpux2", k=4))
    answers = [fenced(RIGHT), fenced(RIGHT), "I cannot do that.", fenced(f"{RIGHT}#{'a' * 600_000}\n")]
    task = parallel_kernel_bench(problems="allreduce", site=site.url, run=run.id, k=4)
    for _ in range(2):
        log, _ = ran(monkeypatch, task, *answers)
        assert sum(sample.scores["verdict"].value["correct"] for sample in log.samples) == 2
    there = [(each.sample, each.verdict, each.mode) for each in alice.runs.attempts(run.id)]
    verdicts = ["PASSED", "PASSED", "IMPORT_ERROR", "LIMIT_EXCEEDED"]
    assert sorted(there) == [(number, verdict, "ranked") for number, verdict in enumerate(verdicts)]
    # Rollouts without numbers, of two processes one after the other.
    for _ in range(2):
        grading.RUN_JUDGES.clear()
        judge = judge_of(profile="cpux2", site=site.url, run=run.id)
        said = [judge("allgather", "", mode="ranked", place=Place(sample=name)).verdict for name in ("a", "b", "a")]
        assert said == ["IMPORT_ERROR"] * 3
    assert sorted(each.sample for each in alice.runs.attempts(run.id, problem="allgather")) == [0, 1]
    with pytest.raises(UsageError, match="The run is pytorch on cpux2, not pytorch on cpux4"):
        judge_of(profile="cpux4", site=site.url, run=run.id)


@pytest.mark.slow
def test_what_a_solver_had_judged_are_steps_of_an_agentic_run(site, alice, folder, monkeypatch):
    monkeypatch.setenv("PKB_TOKEN", site.token)
    run = alice.runs.create(NewRun(model="steps-in-inspect", mode="agentic", profile="cpux2"))
    where = {"site": site.url, "run": run.id}
    task = parallel_kernel_bench(problems="allreduce", **where)
    log, _ = ran(monkeypatch, task, fenced(NO_COMMUNICATION), fenced(RIGHT), solver=revise(**where))
    there = [(each.step, each.mode, each.verdict, each.has_trajectory) for each in alice.runs.attempts(run.id)]
    assert sorted(there) == [
        (0, "check", "WRONG_RESULT", True),
        (1, "check", "PASSED", True),
        (2, "ranked", "PASSED", True),
    ]
    assert log.samples[0].scores["verdict"].value["correct"] == 1.0


def test_a_harness_that_lost_its_files_finds_its_samples_and_goes_on_with_unfinished_ones(site, alice, monkeypatch):
    monkeypatch.setenv("PKB_TOKEN", site.token)
    run = alice.runs.create(NewRun(model="chains", mode="agentic", profile="cpux2"))

    def programs(*chains):
        """A harness that knows nothing of the one before has these judged, and what the run then has."""
        grading.RUN_JUDGES.clear()
        judge = judge_of(profile="cpux2", site=site.url, run=run.id)
        for name, chain in enumerate(chains):
            texts = [f"def solution(x: pass  # {word}" for word in chain.split()]  # refused without a judge
            for step, text in enumerate(texts):
                place = Place(sample=f"rollout {name}", earlier=tuple(texts[:step]))
                judge("allgather", text, mode="ranked" if chain.split()[step] == "end" else "check", place=place)
        found = defaultdict(list)
        for each in sorted(alice.runs.attempts(run.id), key=lambda each: (each.sample, each.step)):
            found[each.sample].append(each.mode[0])
        return {sample: "".join(modes) for sample, modes in found.items()}

    assert programs("a b end", "a c end") == {0: "ccr", 1: "ccr"}
    assert programs("a c end", "a b end") == {0: "ccr", 1: "ccr"}
    assert programs("a d end") == {0: "ccr", 1: "ccr", 2: "ccr"}
    assert programs("e f") == {0: "ccr", 1: "ccr", 2: "ccr", 3: "cc"}
    assert programs("e g end") == {0: "ccr", 1: "ccr", 2: "ccr", 3: "cccr"}


@pytest.mark.slow
def test_a_solver_shows_the_diagnosis_until_a_program_passes(folder, monkeypatch):
    task = parallel_kernel_bench(dataset="prompts.jsonl", judge=str(ROOT), mode="check")
    solver = revise(judge=str(ROOT), steps=5)
    log, asked = ran(monkeypatch, task, fenced(NO_COMMUNICATION), fenced(RIGHT), solver=solver)
    assert "WRONG_RESULT" in asked[1]["messages"][-1]["content"]
    assert (len(asked), log.samples[0].scores["verdict"].value["correct"]) == (2, 1.0)


@pytest.mark.slow
def test_a_solver_gives_the_model_a_tool_that_judges(folder, monkeypatch):
    task = parallel_kernel_bench(dataset="prompts.jsonl", judge=str(ROOT), mode="check")
    answers = [[("check", {"source": RIGHT})], fenced(RIGHT)]
    log, asked = ran(monkeypatch, task, *answers, solver=use_judge(judge=str(ROOT)))
    assert asked[1]["messages"][-1]["content"].startswith("PASSED")
    assert log.samples[0].scores["verdict"].value["correct"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"split": "no_such"}, "There is no split 'no_such'. Choose all, collective."),
        ({"problems": "allreduce,nothing"}, "no problem nothing"),
        ({"profile": "h200x8-nomc"}, "holds pytorch on cpux2, not pytorch on h200x8-nomc"),
        ({"dataset": "absent.jsonl"}, "absent.jsonl cannot be read"),
        ({"judge": "absent"}, "absent is no folder. Give a checkout"),
        ({"judge": None, "site": "http://127.0.0.1:9"}, "There is no token for http://127.0.0.1:9: call `pkb login`"),
    ],
)
def test_bad_arguments_are_named_with_what_there_is_before_a_model_is_asked(folder, monkeypatch, arguments, said):
    monkeypatch.setenv("PKB_CONFIG_DIR", str(folder))
    with pytest.raises(Exception, match=said):
        parallel_kernel_bench(**{"dataset": "prompts.jsonl", "judge": str(ROOT), **arguments})


@pytest.mark.parametrize("k", [1, 2, 5])
def test_figures_are_those_of_the_site(k):
    outcomes = {"a": [True, False, False], "b": [False] * 3, "c": [True] * 3, "d": [True, False]}
    counts = [(len(found), sum(found)) for found in outcomes.values()]
    theirs = figures.estimate(counts, k=k, problems=len(outcomes))
    ours = estimate(outcomes, k=k)
    assert (ours.value, ours.low, ours.high) == pytest.approx((theirs.value, theirs.low, theirs.high))
