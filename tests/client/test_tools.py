"""`pkb generate --tools`: a model of ours works with files and the judge of a whole site."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request

from pkb.agent import Plan, Task, Verdict
from pkb.chat import Answer, Usage
from pkb.generation_log import Turned
from pkb.tool_agent import TOOLS, work
from tests.client.model_server import KEY, ModelServer, called
from tests.client.programs import NO_COMMUNICATION, RIGHT
from tests.client.test_generate import PRICES, events
from tests.stack import ROOT

CALL = ("generate", "allreduce", "--model", "worker", "--mode", "agentic", "--tools", "--profile", "cpux2", *PRICES)
TUNED = f"CHUNKS = 1\n{RIGHT}"


def write(text):
    return ("write", {"path": "solution.py", "text": text})


def last_results(messages):
    """What the tools answered since the model's last turn."""
    last = max((number for number, message in enumerate(messages) if message["role"] == "assistant"), default=-1)
    return [message["content"] for message in messages[last + 1 :] if message["role"] == "tool"]


def works_with_care(messages):
    """Reads, writes a program that is wrong, learns of it, and sweeps a constant of the right one."""
    results = last_results(messages)
    if not results:
        return [("read", {"path": "reference.py"}), ("read", {"path": "/etc/passwd"}), ("run", {"command": "id"})]
    if "def solution" in results[0]:
        return [write(NO_COMMUNICATION), ("check", {})]
    if "WRONG_RESULT" in results[-1]:
        return [write(TUNED), ("write", {"path": "notes.md", "text": "It has to communicate."}), ("check", {})]
    if results[-1].startswith("PASSED"):
        return [("sweep", {"name": "CHUNKS", "values": [1, 2]})]
    return "I am satisfied."


def test_a_model_reads_writes_checks_and_sweeps_and_each_judgement_is_a_step(command, alice, tmp_path):
    with ModelServer(works_with_care) as server:
        environment = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": KEY}
        done = command(*CALL, "--json", **environment)
        assert done.status == 0, done.err
        again = command(*CALL, "--json", **environment)
    summary = json.loads(done.out)
    assert (json.loads(again.out), len(server.asked)) == (summary, 5)
    assert [tool["function"]["name"] for tool in server.asked[0]["tools"]] == [
        "read",
        "write",
        "check",
        "benchmark",
        "sweep",
    ]
    [reference, elsewhere, shell] = last_results(server.asked[1]["messages"])
    assert reference == alice.problem("allreduce").reference
    assert "There is no '/etc/passwd' to read. Files: solution.py" in elsewhere
    assert "There is no tool 'run'." in shell
    list(alice.runs.watch(summary["run"]))
    attempts = list(alice.runs.attempts(summary["run"]))
    assert [(attempt.step, attempt.mode, attempt.verdict) for attempt in attempts] == [
        (0, "check", "WRONG_RESULT"),
        (1, "check", "PASSED"),
        (2, "benchmark", "PASSED"),
        (3, "benchmark", "PASSED"),
        (4, "ranked", "PASSED"),
    ]
    # Tokens of every turn are counted once, at the judgement that they led to, the last ones at the ranked step.
    figures = alice.runs.get(summary["run"]).figures
    assert figures.tokens == summary["tokens_in"] + summary["tokens_out"]
    trail = alice.transport.request("GET", f"runs/{summary['run']}/attempts/{attempts[1].id}/trajectory/").text
    assert "It has to communicate." in trail
    assert "WRONG_RESULT" in trail
    # The page draws what the agent had reached by step.
    alice.runs.publish(summary["run"])
    with urllib.request.urlopen(summary["page"]) as page:
        drawn = re.findall(r'<th scope="row" class="num">(\d)</th><td class="num">(\d)</td>', page.read().decode())
    assert drawn == [("0", "0"), ("1", "1"), ("2", "1"), ("3", "1"), ("4", "1")]


def test_killed_while_it_works_it_goes_on_with_the_next_turn(site, alice, tmp_path):
    reached, goes_on = threading.Event(), threading.Event()

    def stalls(messages):
        if len(messages) > 1 and not goes_on.is_set():
            reached.set()
            threading.Event().wait(60)
        return [write(RIGHT), ("check", {})] if len(messages) == 1 else "Done."

    environment = {name: value for name, value in os.environ.items() if not name.startswith("PKB_")} | {
        "PYTHONPATH": f"{ROOT / 'client'}:{os.environ.get('PYTHONPATH', '')}",
        "PKB_SITE": site.url,
        "PKB_TOKEN": site.token,
        "OPENAI_API_KEY": KEY,
    }
    call = [sys.executable, "-m", "pkb", *CALL, "--journal", "work.jsonl", "--json"]
    with ModelServer(stalls) as server:
        environment["OPENAI_BASE_URL"] = server.base_url
        with subprocess.Popen(call, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL) as killed:
            assert reached.wait(120)
            killed.send_signal(signal.SIGKILL)
        goes_on.set()
        done = subprocess.run(call, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(server.asked) == 3
    assert len(events(tmp_path / "work.jsonl", "turned")) == 4
    attempts = list(alice.runs.attempts(json.loads(done.stdout)["run"]))
    assert [(attempt.step, attempt.mode) for attempt in attempts] == [(0, "check"), (1, "ranked")]


class Scripted:
    """A model that takes its turns as they stand here, and a judge with verdicts in the order given."""

    def __init__(self, turns, verdicts):
        self.turns, self.verdicts, self.handed_in, self.ranked, self.noted = turns, verdicts, [], [], []

    def turn(self, messages, tools):
        assert tools is TOOLS
        said = self.turns.pop(0)
        message = {"role": "assistant", "content": said} if isinstance(said, str) else called(said, len(messages))
        return Answer(text="", finish_reason="", usage=Usage(tokens_in=90, tokens_out=10), seconds=1), message

    def judged(self, _task, step, answer, *, mode, is_new, **_):
        self.handed_in.append((step, mode, is_new, answer.usage.tokens_in))
        verdict, low = self.verdicts.pop(0)
        return Verdict(verdict=verdict, diagnosis=f"{verdict}, because", score_low=low)

    def rank(self, _task, step, answer, **_):
        self.ranked.append((step, answer.text))

    def carried(self, **bounds):
        task, files = Task(problem="allreduce", sample=0), {"solution.py": TUNED}
        judging = {"model": self, "judge": self, "note": self.noted.append, "cost_of": lambda _: 0.5}
        plan = Plan(has_tools=True, **{"steps": 20, **bounds})
        turns: list[Turned] = []
        return work(task, prompt="The task.", files=files, plan=plan, turns=turns, **judging)


def test_a_sweep_keeps_the_fastest_correct_value_and_a_failing_judge_costs_no_step():
    verdicts = [("PASSED", 1.1), ("JUDGE_FAILURE", None), ("PASSED", 1.4), ("WRONG_RESULT", None)]
    script = Scripted([[("sweep", {"name": "CHUNKS", "values": [1, 2, 4]})], "Done."], verdicts)
    assert script.carried(steps=3) == 4
    # The tokens that led to the sweep are those of its first value.
    assert script.handed_in == [
        (0, "benchmark", True, 90),
        (1, "benchmark", True, 0),
        (2, "benchmark", False, 0),
        (3, "benchmark", True, 0),
    ]
    assert script.noted[1].written["solution.py"].startswith("CHUNKS = 2\n")
    assert script.noted[1].messages[0]["content"].splitlines()[-1] == "solution.py has CHUNKS = 2 now."
    [(step, text)] = script.ranked
    assert (step, "CHUNKS = 2\n" in text, "ended: steps" in text) == (4, True, True)


def test_a_sample_ends_where_its_budget_does():
    for bounds, reason in (({"tokens": 200}, "tokens"), ({"seconds": 2}, "seconds"), ({"usd": 1}, "cost")):
        script = Scripted([[("read", {"path": "notes.md"})]] * 9, [])
        script.carried(**bounds)
        assert (len(script.turns), f"ended: {reason}" in script.ranked[0][1]) == (7, True)
    script = Scripted([[("check", {})] * 3], [("TIMEOUT", None)] * 2)
    script.carried(steps=2)
    assert script.noted[-1].messages[0]["content"] == "No judgement is left."


def test_a_model_that_writes_nothing_has_not_written_the_starter():
    script = Scripted([""], [])
    script.carried()
    assert "def solution" not in script.ranked[0][1]
