"""`pkb generate` against a model of ours, a whole site and a real judge: from the prompt to the ranked attempt."""

import json
import os
import re
import signal
import subprocess
import sys
import threading

import pytest

from pkb.agent import NotJudged, Plan, Step, Task, Verdict, best, conversation, solve
from pkb.chat import Answer, Prices, Usage
from pkb.diagnosis import diagnosis
from pkb.generation_log import Event, Log
from pkb.journal import Journal
from tests.client.model_server import KEY, ModelServer, fenced
from tests.client.programs import NO_COMMUNICATION, RIGHT
from tests.stack import ROOT

PRICES = ("--price-in", "2", "--price-out", "10", "--price-cached", "0.5")
AGENT = ("generate", "allreduce", "--model", "learner", "--mode", "agentic", "--profile", "cpux2", *PRICES)


def events(journal, kind):
    return [entry for entry in map(json.loads, journal.read_text().splitlines()) if entry["event"] == kind]


def test_an_agent_reads_what_a_person_sees_and_gets_it_right(command, alice, tmp_path):
    journal = tmp_path / "pkb-learner-cpux2.jsonl"
    with ModelServer(refuse_first=1) as server:
        arguments = (*AGENT, "--sampling", "temperature=0.8", "--json")
        done = command(*arguments, OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY=KEY)
        assert done.status == 0, done.err
        summary = json.loads(done.out)
        assert (summary["samples"], summary["done"], summary["failed"]) == (1, 1, {})
        assert [entry["verdict"]["verdict"] for entry in events(journal, "judged")] == [
            "RUNTIME_ERROR",
            "WRONG_RESULT",
            "PASSED",
        ]
        assert len(server.asked) == 3
        prompt = alice.prompt("allreduce", backend="pytorch", profile="cpux2")
        assert server.asked[0]["messages"] == [{"role": "user", "content": prompt.text}]
        assert server.asked[0]["temperature"] == 0.8

        list(alice.runs.watch(summary["run"]))
        attempts = list(alice.runs.attempts(summary["run"]))
        assert [(attempt.step, attempt.mode, attempt.verdict) for attempt in attempts] == [
            (0, "check", "RUNTIME_ERROR"),
            (1, "check", "WRONG_RESULT"),
            (2, "check", "PASSED"),
            (3, "ranked", "PASSED"),
        ]
        for attempt, question in zip(attempts, server.asked[1:], strict=False):
            assert attempt.submission_id
            assert diagnosis(alice.submission(attempt.submission_id).evaluation) in question["messages"][-1]["content"]
        assert re.search(
            r"rank 0, output .*: \d+ of \d+ elements wrong, the first at \[", server.asked[2]["messages"][-1]["content"]
        )
        # Per step 1000 fresh tokens at 2, the others cached at 0.5, and 100 out at 10 dollars a million.
        assert summary["cost_usd"] == pytest.approx(3 * 0.003 + (2 + 4) * 0.0005)
        run = alice.runs.get(summary["run"])
        assert (run.mode, run.prompt_version, run.figures.solved) == ("agentic", prompt.version, 1)
        assert run.figures.cost_usd == pytest.approx(summary["cost_usd"])
        assert run.sampling == {"temperature": 0.8}

        again = command(*arguments, OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY=KEY)
        assert (again.status, len(server.asked)) == (0, 3)
        assert json.loads(again.out) == summary


def test_killed_in_the_middle_it_goes_on_without_asking_twice(site, alice, tmp_path):
    reached = threading.Event()

    def stalls_in_the_second_step(messages):
        if len(messages) > 1:
            reached.set()
            threading.Event().wait(60)
        return "I have no program yet."

    environment = {name: value for name, value in os.environ.items() if not name.startswith("PKB_")} | {
        "PYTHONPATH": str(ROOT / "client"),
        "PKB_SITE": site.url,
        "PKB_TOKEN": site.token,
        "OPENAI_API_KEY": KEY,
    }
    call = [sys.executable, "-m", "pkb", *AGENT, "--steps", "2", "--journal", "steps.jsonl", "--json"]
    with ModelServer(stalls_in_the_second_step) as server:
        environment["OPENAI_BASE_URL"] = server.base_url
        with subprocess.Popen(call, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL) as killed:
            assert reached.wait(60)
            killed.send_signal(signal.SIGKILL)
    # What a crash may leave: a record cut off in the middle.
    with (tmp_path / "steps.jsonl").open("a") as journal:
        journal.write('{"event": "answ')
    with ModelServer(lambda _: "I give up.") as server:
        environment["OPENAI_BASE_URL"] = server.base_url
        done = subprocess.run(call, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        # The first question was asked and answered before.
        assert [len(body["messages"]) for body in server.asked] == [3]
    assert len(events(tmp_path / "steps.jsonl", "run")) == 1
    # Answers without a program cost what they cost: each is a step of the run, and the one that counts repeats none.
    summary = json.loads(done.stdout)
    attempts = list(alice.runs.attempts(summary["run"]))
    assert [(attempt.step, attempt.mode, attempt.verdict) for attempt in attempts] == [
        (0, "check", "IMPORT_ERROR"),
        (1, "check", "IMPORT_ERROR"),
        (2, "ranked", "IMPORT_ERROR"),
    ]
    figures = alice.runs.get(summary["run"]).figures
    assert figures.cost_usd == pytest.approx(summary["cost_usd"])
    assert figures.cost_usd > 0
    assert figures.tokens == summary["tokens_in"] + summary["tokens_out"]


def test_every_sample_is_an_attempt_even_without_a_program(command, alice, tmp_path):
    with ModelServer(lambda _: "I cannot do that.") as server:
        arguments = ("generate", "allreduce", "--model", "sampler", "--mode", "best_of_k", "--samples", "3")
        done = command(*arguments, "--profile", "cpux2", "--json", OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY=KEY)
    assert done.status == 0, done.err
    attempts = list(alice.runs.attempts(json.loads(done.out)["run"]))
    assert sorted((attempt.sample, attempt.step, attempt.mode) for attempt in attempts) == [
        (0, 0, "ranked"),
        (1, 0, "ranked"),
        (2, 0, "ranked"),
    ]
    assert {attempt.verdict for attempt in attempts} == {"IMPORT_ERROR"}


def test_a_run_declares_the_prompt_with_hints_and_takes_no_attempt_with_another(command, alice, tmp_path):
    hints = ("--prompt-version", "pkb-prompt-5-hints")
    call = ("generate", "allreduce", "--model", "told", "--profile", "cpux2", "--json")
    with ModelServer(lambda _: "I give up.") as server:
        environment = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": KEY}
        done = command(*call, *hints, **environment)
        assert done.status == 0, done.err
        run = json.loads(done.out)["run"]
        other = command(*call, "--run", run, "--journal", "other.jsonl", **environment)
        assert len(server.asked) == 1
    assert alice.runs.get(run).prompt_version == "pkb-prompt-5-hints"
    told = alice.prompt("allreduce", profile="cpux2", version="pkb-prompt-5-hints")
    assert server.asked[0]["messages"][0]["content"] == told.text != alice.prompt("allreduce").text
    assert other.status == 2
    assert "Use --prompt-version pkb-prompt-5-hints" in other.err


def test_a_refusing_endpoint_fails_the_sample_and_says_how_to_go_on(command, tmp_path):
    with ModelServer() as server:
        done = command(*AGENT, "--journal", "refused.jsonl", OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="wrong")
    assert done.status == 3
    assert "allreduce/0: The model's endpoint answered: Incorrect API key provided" in done.err
    assert "Run the same command to resume from refused.jsonl." in done.err
    other = command(*AGENT, "--steps", "5", "--journal", "refused.jsonl", OPENAI_BASE_URL=server.base_url)
    assert other.status == 2
    assert "was created with plan" in other.err


def test_without_a_run_programs_are_ones_own_and_the_budget_holds(command, alice, tmp_path):
    with ModelServer(lambda _: fenced(NO_COMMUNICATION)) as server:
        done = command(
            *AGENT, "--no-run", "--budget", "0.003", "--json", OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY=KEY
        )
    summary = json.loads(done.out)
    assert (done.status, summary["done"], summary["is_over_budget"], summary["run"]) == (3, 0, True, None)
    assert len(server.asked) == 1
    assert "learner, sample 0, step 0" in [entry.note for entry in alice.submissions(problem="allreduce")]


def step(verdict, *, low=None):
    said = Verdict(verdict=verdict, diagnosis=f"{verdict}, because", score_low=low)
    return Step(answer=Answer(text=fenced(RIGHT), finish_reason="stop", usage=Usage(), seconds=1), verdict=said)


def test_the_fastest_that_passed_is_ranked():
    assert best([step("WRONG_RESULT"), step("PASSED", low=1.1), step("PASSED", low=1.3), step("TIMEOUT")]) == 2
    assert best([step("PASSED"), step("PASSED")]) == 0
    assert best([step("WRONG_RESULT"), step("TIMEOUT")]) == 1


def test_a_model_sees_the_task_and_its_latest_rounds():
    asked = conversation("The task.", [step(f"NUMBER_{number}") for number in range(6)] + [step("JUDGE_FAILURE")])
    assert asked[0].content == "The task."
    assert [message.role for message in asked[1:]] == ["assistant", "user"] * 4
    assert "NUMBER_2, because" in asked[2].content
    assert "NUMBER_5, because" in asked[-1].content


class Scripted:
    """A model, a judge and a log of their own: verdicts come in the order given."""

    def __init__(self, *verdicts):
        self.verdicts, self.questions, self.handed_in, self.noted, self.ranked = list(verdicts), [], [], [], []

    def ask(self, messages):
        self.questions.append(messages)
        usage = Usage(tokens_in=1, tokens_out=1)
        return Answer(text=fenced(f"{RIGHT}# {len(self.questions)}"), finish_reason="stop", usage=usage, seconds=1)

    def judged(self, _task, number, *rest, is_new=None, **_):
        if is_new is None:
            self.noted.append(rest[0].verdict)
            return None
        self.handed_in.append((number, rest[0].text, is_new))
        return Verdict(verdict=self.verdicts.pop(0), diagnosis="so it is")

    def answered(self, _task, number, _answer):
        self.noted.append(number)

    def repeated(self, _task, number):
        self.noted.append(f"again as {number}")

    def rank(self, _task, number, answer, **_):
        self.ranked.append((number, answer.text))

    def count(self, _task, number, _answer, **_):
        raise AssertionError(f"step {number} holds a program")


def carried(script, *, steps, begun=()):
    task, plan = Task(problem="allreduce", sample=0), Plan(steps=steps)
    return solve(task, prompt="The task.", plan=plan, steps=list(begun), model=script, judge=script, notes=script)


def test_a_failure_of_the_judge_costs_no_step():
    script = Scripted("WRONG_RESULT", "JUDGE_FAILURE", "BASELINE_UNSTABLE", "WRONG_RESULT", "PASSED")
    assert carried(script, steps=3) == 5
    # Three answers, the second handed in three times, and its tokens counted once.
    assert len(script.questions) == 3
    texts = [text for _, text, _ in script.handed_in]
    assert texts[1] == texts[2] == texts[3] != texts[4]
    assert [is_new for _, _, is_new in script.handed_in] == [True, True, False, False, True]
    # The model is never shown what it could do nothing about.
    assert not any("JUDGE_FAILURE" in message.content for asked in script.questions for message in asked)
    assert script.ranked == [(5, texts[4])]


def test_a_judge_that_goes_on_failing_ends_the_sample_and_a_later_call_goes_on():
    script = Scripted(*["JUDGE_FAILURE"] * 4)
    with pytest.raises(NotJudged):
        carried(script, steps=2)
    assert (len(script.questions), script.ranked) == (1, [])
    failed = Step(answer=script.ask([]), verdict=Verdict(verdict="JUDGE_FAILURE", diagnosis=""))
    later = Scripted("PASSED")
    assert carried(later, steps=2, begun=[failed] * 4) == 5
    assert (later.questions, later.handed_in) == ([], [(4, failed.answer.text, False)])


def test_repeats_are_read_back_from_the_journal(tmp_path):
    task, answer = Task(problem="allreduce", sample=0), step("X").answer
    failed, passed = (Verdict(verdict=word, diagnosis="") for word in ("JUDGE_FAILURE", "PASSED"))
    with Journal(tmp_path / "journal", Event) as journal:
        log = Log(journal, Prices())
        log.answered(task, 0, answer)
        log.judged(task, 0, failed)
        log.repeated(task, 1)
        log.judged(task, 1, passed)
    with Journal(tmp_path / "journal", Event) as journal:
        assert Log(journal, Prices()).steps()[task] == [
            Step(answer=answer, verdict=failed),
            Step(answer=answer, verdict=passed, is_repeat=True),
        ]
