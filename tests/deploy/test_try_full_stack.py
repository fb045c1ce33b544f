"""The operator's trial of the whole chain: it ends well where the chain works, and says what is wrong where not."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.stack import wait_until

ROOT = Path(__file__).resolve().parents[2]


def try_full_stack(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PKB_", "DJANGO_"))}
    return subprocess.run(
        [sys.executable, ROOT / "deploy" / "try_full_stack.py", *arguments],
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_submission_goes_all_the_way(tmp_path):
    report = tmp_path / "report.json"
    ended = try_full_stack("--profile", "cpux2", "--report", str(report), TMPDIR="/tmp")  # the servers' user reads it

    assert ended.returncode == 0, ended.stdout + ended.stderr
    evidence = json.loads(report.read_text())
    assert evidence["submission"]["evaluation"]["report"]["verdict"] == "PASSED"
    assert evidence["submission"]["evaluation"]["report"]["profile"] == "cpux2"
    assert "score" in evidence["seen"]["board"]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_another_verdict_than_expected_is_a_failure():
    ended = try_full_stack(
        "--submission", str(ROOT / "tests/evaluator/submissions/wrong_on_rank_one.py"), "--mode", "check", TMPDIR="/tmp"
    )

    assert ended.returncode == 1
    assert "PASSED was expected, not WRONG_RESULT" in ended.stdout


@pytest.mark.slow
def test_a_trial_that_is_told_to_end_leaves_nothing():
    with tempfile.TemporaryDirectory(prefix="pkb-trial-", dir="/tmp") as name:  # the servers' user reads it
        folder = Path(name)
        folder.chmod(0o755)
        command = [sys.executable, ROOT / "deploy" / "try_full_stack.py"]
        trial = subprocess.Popen(command, env=os.environ | {"TMPDIR": name}, stdout=subprocess.DEVNULL)
        pids = "pkb-stack-*/postgresql/data/postmaster.pid"
        try:
            # Redis is started after it; the file alone is there while initdb still works.
            started = "pkb-stack-*/redis.log"
            wait_until(lambda: [*folder.glob(started)] and [*folder.glob(pids)], what="PostgreSQL runs", seconds=60)
            postgres = Path("/proc", next(folder.glob(pids)).read_text().split()[0])
            trial.send_signal(signal.SIGTERM)
            assert trial.wait(90) == 128 + signal.SIGTERM
        finally:
            trial.kill()
            trial.wait()
        wait_until(lambda: not postgres.exists(), what="PostgreSQL has ended", seconds=10)
        assert list(folder.iterdir()) == []


def test_missing_carried_files_are_named(tmp_path):
    ended = try_full_stack("--carried", str(tmp_path))

    assert ended.returncode == 1
    assert f"{tmp_path}/servers.tar.xz is missing: collect it with deploy/carry-stack.sh" in ended.stdout
