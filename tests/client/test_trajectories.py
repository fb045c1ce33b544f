"""`pkb import-trajectory`: a file that mini-SWE-agent 2.4.6 saved, as attempts for a run."""

import json
from pathlib import Path

import msgspec
import pytest

from pkb import NewAttempt, UsageError
from pkb.trajectories import attempts_of
from tests.client.programs import NO_COMMUNICATION, RIGHT

SAVED = Path(__file__).parent / "data" / "miniswe_agent.traj.json"


def test_every_program_is_a_step_with_what_led_to_it_and_the_last_is_ranked():
    attempts = list(attempts_of(SAVED, problem="allreduce", sample=2))
    assert [(one.sample, one.step, one.mode, one.source) for one in attempts] == [
        (2, 0, "check", NO_COMMUNICATION),
        (2, 1, "check", RIGHT),
        (2, 2, "ranked", RIGHT),
    ]
    assert [(one.cost_usd, one.tokens_in, one.tokens_out) for one in attempts] == [
        (0.5, 2200, 100),
        (0.25, 1500, 50),
        (0.25, 1700, 50),
    ]
    assert [one.seconds for one in attempts] == [10, 10, 10]
    assert "A first try." in attempts[0].trajectory
    assert "$ ls" in attempts[0].trajectory
    assert "A first try." not in attempts[1].trajectory


def test_the_command_prints_what_an_upload_reads(command, tmp_path):
    final = tmp_path / "final.py"
    final.write_text(f"# tuned\n{RIGHT}")
    done = command("import-trajectory", SAVED, "--problem", "allreduce", "--final", final)
    lines = [msgspec.json.decode(line, type=NewAttempt) for line in done.out.splitlines()]
    assert (done.status, len(lines), lines[-1].source) == (0, 3, f"# tuned\n{RIGHT}")


def test_other_files_are_refused_with_what_to_do(tmp_path):
    path = tmp_path / "other.json"
    for text, said in (
        ("{", "is no trajectory of mini-SWE-agent"),
        ('{"messages": [], "trajectory_format": "else-2"}', "has the format 'else-2'.*pkb run upload"),
        ('{"messages": [], "trajectory_format": "mini-swe-agent-1.1"}', "no program that was written whole.*--final"),
    ):
        path.write_text(text)
        with pytest.raises(UsageError, match=said):
            list(attempts_of(path, problem="allreduce"))
    saved = json.loads(SAVED.read_text())
    for message in saved["messages"]:
        actions = message.pop("extra", {}).get("actions", [])
        message["content"] = "".join(f"```bash\n{action['command']}\n```\n" for action in actions)
    path.write_text(json.dumps(saved | {"trajectory_format": "mini-swe-agent-1"}))
    assert [one.source for one in attempts_of(path, problem="allreduce")] == [NO_COMMUNICATION, RIGHT, RIGHT]
