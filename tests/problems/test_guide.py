"""A newcomer follows docs/adding-a-problem.md in a copy of the project, and everything takes the 88th problem."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = Path("docs/adding-a-problem.md")
FOLDER = Path("problems/catalog/p088_ragged_sum")
NOT_COPIED = (".git", ".venv", "var", "node_modules", "__pycache__", ".*_cache", "images")
WITHOUT_RANKS = """ARGS="-k 'not x2 and not x4 and not stay_away'" """
"""Those that start ranks run programs that `make problem-docs` has just run on 2 and 4 of them."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project that shares its virtual environment."""
    root = tmp_path / "project"
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*NOT_COPIED))
    (root / ".venv").symlink_to(sys.prefix)
    return root


def commands() -> list[str]:
    """The blocks of commands in the guide's steps, in order."""
    steps = (ROOT / GUIDE).read_text(encoding="utf-8").split("\n## ")[1]
    return [block.replace("\n   ", "\n").strip() for block in re.findall(r"```\n(.+?)```", steps, re.DOTALL)]


def run(project: Path, command: str) -> str:
    """What `command` prints in `project`, where the virtual environment has all that `make setup-tests` installs."""
    line = re.sub(r"^make ", "make --assume-old=setup-tests ", command, flags=re.MULTILINE)
    # The tests that the newcomer runs make a database of their own: this run's lies in PKB_DATA_DIR.
    # What `make test ARGS=...` was called with is not meant for the newcomer's make.
    foreign = {"PKB_DATA_DIR", "ARGS", "MAKEFLAGS", "MAKEOVERRIDES"}
    env = {name: value for name, value in os.environ.items() if name not in foreign}
    done = subprocess.run(["/bin/sh", "-ec", line], cwd=project, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def replace_in(path: Path, **changes: str) -> None:
    """Set the first `key=...` of each key in a spec."""
    text = path.read_text(encoding="utf-8")
    for key, value in changes.items():
        text = re.sub(rf"\b{key}=.+,$", f"{key}={value},", text, count=1, flags=re.MULTILINE)
    path.write_text(text, encoding="utf-8")


def contents(project: Path) -> dict[str, str]:
    """The digest of every file but Python's and tools' own, by its path."""
    files = (path for path in project.rglob("*") if path.is_file())
    found = {str(path.relative_to(project)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    return {name: digest for name, digest in found.items() if not re.search(r"__pycache__|_cache/|^\.venv|^var/", name)}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_problem_88_is_one_folder_and_what_one_command_writes(project: Path):
    copy, problem_tests, _calibrate, write_docs, judge = commands()
    before = contents(project)
    run(project, copy)
    replace_in(project / FOLDER / "spec.py", number="88", slug='"ragged_sum"', title='"Sum of rows"')
    statement = project / FOLDER / "statement.md"
    statement.write_text(statement.read_text(encoding="utf-8").split("### Unlike the published inputs")[0])

    assert "| 88 | [Sum of rows](../problems/catalog/p088_ragged_sum/statement.md) | 24 / 24 | 8 / 8 |" in run(
        project, write_docs
    )
    assert " passed" in run(project, f"{problem_tests} {WITHOUT_RANKS}")
    assert "PASSED: correct on 2 ranks" in run(project, judge)
    pages = "tests/portal/pages/test_reading.py tests/portal/api/test_catalog.py -k ragged_sum"
    assert " passed" in run(project, f".venv/bin/python -m pytest {pages}")
    changed = {name for name, digest in contents(project).items() if before.get(name) != digest}
    assert {name for name in changed if not name.startswith(f"{FOLDER}/")} == {"docs/problems.md"}
    assert set(before) <= set(contents(project))
