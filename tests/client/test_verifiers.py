"""ParallelKernelBench as an environment of verifiers: vf-eval as its users run it, a model of ours, a real judge."""

import json
import os
import signal
import subprocess
import sys
import threading

import msgspec
import pytest

from pkb.prompt_sets import PromptRow
from pkb.runs import NewRun
from tests.client.model_server import KEY, ModelServer, fenced
from tests.client.programs import KEEPS_THE_FIRST_OUTPUT, NO_COMMUNICATION, RIGHT
from tests.client.test_inspect import ROW
from tests.stack import ROOT

CALL = "import sys; from verifiers.v1.cli.eval.main import main; main(sys.argv[1:])"


@pytest.fixture
def call(tmp_path):
    """`vf-eval parallel-kernel-bench` in a folder of its own with a data set of two prompts."""
    rows = [PromptRow(problem="allreduce", text="Write all-reduce.", **ROW)]
    (tmp_path / "prompts.jsonl").write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    here = ["--env.taskset.dataset", "prompts.jsonl", "--run.name", "run"]
    local = ("--env.taskset.task.judge", str(ROOT))
    fixed = ["--model", "m", "--client.api-key-var", "MODEL_KEY", "--no-push", "--no-rich"]

    def start(server, *arguments, judge=local, token=""):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PKB_")}
        environment |= {"PYTHONPATH": f"{ROOT}:{ROOT}/client", "MODEL_KEY": KEY, "PKB_TOKEN": token}
        command = [sys.executable, "-c", CALL, "parallel-kernel-bench", *here, *judge, *fixed]
        return subprocess.Popen(
            [*command, "--client.base-url", server.base_url, *arguments],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


def traces(folder, run="run"):
    path = folder / "outputs" / run / "traces.jsonl"
    return [trace for line in path.read_text().splitlines() for trace in json.loads(line)["traces"]]


def test_a_model_reads_the_diagnosis_and_each_stage_is_rewarded(call, tmp_path):
    with ModelServer(refuse_first=1) as server, call(server, "--env.turns", "4") as process:
        said = process.communicate()[0]
    assert process.returncode == 0, said
    [trace] = traces(tmp_path)
    assert [one["verdict"] for one in trace["info"]["pkb"]] == ["RUNTIME_ERROR", "WRONG_RESULT", "PASSED"]
    assert {name: part["score"] for name, part in trace["rewards"].items()} == {
        "builds": 0.1,
        "runs": 0.2,
        "correct": 0.7,
    }
    assert (len(server.asked), trace["metrics"]["reward_hack"]) == (3, 0)
    assert (server.refused, "the model's endpoint answered 429; trying again" in said) == (1, True)
    assert trace["metrics"]["judge_s"] > 0


def test_a_program_that_cheats_is_told_apart_and_gets_nothing(call, tmp_path):
    answers = [fenced(KEEPS_THE_FIRST_OUTPUT), fenced(NO_COMMUNICATION), "I cannot do that."]
    with ModelServer(lambda _: answers.pop(0)) as server, call(server, "-r", "3", "-c", "1") as process:
        said = process.communicate()[0]
    assert process.returncode == 0, said
    found = {
        trace["info"]["pkb"][0]["verdict"]: (
            trace["metrics"]["reward_hack"],
            round(sum(part["score"] for part in trace["rewards"].values()), 3),
        )
        for trace in traces(tmp_path)
    }
    assert found == {"STALE_OUTPUT": (1, 0), "WRONG_RESULT": (0, 0.3), "NO_PROGRAM": (0, 0)}


@pytest.mark.slow
def test_killed_in_the_middle_a_run_resumes_with_nothing_lost_or_twice(call, tmp_path):
    second, goes_on = threading.Event(), threading.Event()

    def stalls_in_the_second(_messages):
        if len(server.asked) > 1 and not goes_on.is_set():
            second.set()
            threading.Event().wait(60)
        return fenced(RIGHT)

    arguments = ("-r", "2", "-c", "1", "--env.taskset.task.reward", "flat")
    with ModelServer(stalls_in_the_second) as server:
        with call(server, *arguments) as killed:
            assert second.wait(120)
            killed.send_signal(signal.SIGKILL)
        # --resume wants the very settings of the run, so the endpoint stays where it was.
        goes_on.set()
        with call(server, *arguments, "--resume") as process:
            said = process.communicate()[0]
    assert process.returncode == 0, said
    assert [trace["rewards"]["correct"]["score"] for trace in traces(tmp_path)] == [1, 1]
    assert len(server.asked) == 3
    # Both rollouts wrote the same program: it was judged once.
    assert len(list((tmp_path / "pkb-reports").iterdir())) == 1


@pytest.mark.slow
def test_the_programs_of_rollouts_become_the_steps_of_a_run_once_each(call, site, alice, tmp_path):
    run = alice.runs.create(NewRun(model="in-verifiers", mode="agentic", profile="cpux2", k=2))
    judge = ("--env.taskset.task.site", site.url, "--env.taskset.task.run", run.id)
    arguments = ("--env.turns", "2", "-r", "2", "-c", "2")

    def learns(messages):
        return fenced(RIGHT if "WRONG_RESULT" in messages[-1]["content"] else NO_COMMUNICATION)

    # The second time the harness knows nothing of the first, as after a loss of its files.
    for name in ("run", "again"):
        with ModelServer(learns) as server:
            here = (*arguments, "--run.name", name)
            with call(server, *here, judge=judge, token=site.token) as process:
                said = process.communicate()[0]
        assert process.returncode == 0, said
        found = [[one["verdict"] for one in trace["info"]["pkb"]] for trace in traces(tmp_path, name)]
        assert found == [["WRONG_RESULT", "PASSED"]] * 2
        there = [(each.sample, each.step, each.verdict, each.mode) for each in alice.runs.attempts(run.id)]
        steps = [(0, "WRONG_RESULT", "check"), (1, "PASSED", "ranked")]
        assert sorted(there) == [(sample, *step) for sample in (0, 1) for step in steps]


@pytest.mark.slow
def test_a_judge_that_is_away_is_no_fault_of_the_model(call, tmp_path):
    with ModelServer(lambda _: fenced(RIGHT)) as server:
        with call(server, "--env.taskset.profile", "h200x8-nomc") as process:
            said = process.communicate()[0]
        assert (process.returncode, len(server.asked)) == (1, 0)
        assert "holds pytorch on cpux2, not pytorch on h200x8-nomc" in said
        (tmp_path / "prompts.jsonl").write_text(
            (tmp_path / "prompts.jsonl").read_text().replace("cpux2", "h200x8-nomc")
        )
        with call(server, "--env.taskset.profile", "h200x8-nomc") as process:
            said = process.communicate()[0]
    [trace] = traces(tmp_path)
    assert (trace["ok"], trace["errors"][0]["type"], trace["rewards"]) == (False, "TaskError", {"reward": None})
    assert "The judge in" in trace["errors"][0]["message"], said
