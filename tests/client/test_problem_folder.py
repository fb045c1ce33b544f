"""`pkb init` and `pkb judge`: a folder to work in, and the judge on one's own machine."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.programs import RIGHT

ROOT = Path(__file__).resolve().parents[2]
FILES = {"solution.py", "STATEMENT.md", "reference.py", "test_local.py", "AGENTS.md"}


def test_init_writes_a_folder_whose_local_test_can_pass_and_fail(command, tmp_path):
    done = command("init", "allreduce", "work", "--json")
    assert done.status == 0
    assert set(json.loads(done.out)["files"]) == FILES == {path.name for path in (tmp_path / "work").iterdir()}
    local = [sys.executable, tmp_path / "work" / "test_local.py"]
    assert subprocess.run(local, check=False, capture_output=True).returncode == 0
    (tmp_path / "work" / "solution.py").write_text("def solution(other):\n    return other\n")
    failed = subprocess.run(local, check=False, capture_output=True, text=True)
    assert failed.returncode == 1
    assert "['other'] != ['tensor']" in failed.stderr
    guide = (tmp_path / "work" / "AGENTS.md").read_text()
    assert "pkb submit allreduce solution.py --backend pytorch --mode check --watch" in guide


def test_init_writes_hints_only_where_they_are_asked_for(command, tmp_path):
    statement, hint = tmp_path / "allreduce" / "STATEMENT.md", "What a fast kernel does"
    assert command("init", "allreduce").status == 0
    assert hint not in statement.read_text()
    assert hint not in command("problems", "allreduce").out
    assert command("init", "allreduce", "--hints", "--force").status == 0
    assert hint in statement.read_text()
    assert hint in command("problems", "allreduce", "--hints").out


def test_init_overwrites_nothing_unless_told(command, tmp_path):
    (tmp_path / "allreduce").mkdir()
    kept = tmp_path / "allreduce" / "solution.py"
    kept.write_text("mine\n")
    done = command("init", "allreduce")
    assert (done.status, "solution.py already" in done.err, kept.read_text()) == (2, True, "mine\n")
    assert [path.name for path in kept.parent.iterdir()] == ["solution.py"]
    assert command("init", "allreduce", "--force", "--backend", "cuda").status == 0
    assert "__global__" in kept.read_text()


@pytest.mark.parametrize(("source", "status"), [(RIGHT, 0), (RIGHT.replace("tensor.clone()", "tensor"), 1)])
def test_judge_asks_the_judge_of_this_machine(command, tmp_path, source, status):
    program = tmp_path / "solution.py"
    program.write_text(source)
    assert command("judge", "allreduce", program, "--judge", ROOT).status == status


def test_judge_says_what_to_do_where_there_is_none(command, tmp_path):
    (tmp_path / "solution.py").write_text(RIGHT)
    (tmp_path / "empty").mkdir()
    python = tmp_path / "empty" / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(shutil.which("false"))
    done = command("judge", "allreduce", "solution.py", "--judge", "empty")
    assert done.status == 2
    assert "make setup" in done.err
