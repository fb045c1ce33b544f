"""The command line as a person uses it: real processes, exit status, clear errors."""

import json
import os
import re
import select
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from evaluator import cli
from evaluator.contract import EvaluationReport, Verdict
from evaluator.host.process import procfs
from tests.evaluator.judging_help import SUBMISSIONS

ROOT = Path(__file__).parents[2]


def evaluator(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "evaluator", *arguments]
    return subprocess.run(line, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)


def status(arguments: list[str]) -> int:
    """The exit status of a call that is refused before anything starts; it raises no traceback."""
    try:
        return cli.main(arguments)
    except SystemExit as error:  # argparse's way to refuse
        return error.code


def test_run_of_a_right_program_exits_0_with_its_report() -> None:
    done = evaluator("run", "allreduce", str(SUBMISSIONS / "correct.py"), "--json")
    assert done.returncode == 0, done.stderr
    report = EvaluationReport.from_json(done.stdout)
    assert report.verdict is Verdict.PASSED
    assert report.world_size == 2


def test_run_of_a_wrong_program_exits_1_and_names_the_rank(tmp_path: Path) -> None:
    archive = tmp_path / "submission.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.write(SUBMISSIONS / "wrong_on_rank_one.py", "solution.py")
    done = evaluator("run", "allreduce", str(archive))
    assert done.returncode == 1
    assert done.stdout.startswith("WRONG_RESULT: rank 1")
    assert re.search(r"^  rank 1 \w+: \d+ of \d+ wrong, largest error .*, rms error ", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "allredce", "x.py"], "did you mean allreduce"),
        (["run", "allreduce", "does_not_exist.py"], "cannot read does_not_exist.py"),
        (["run", "allreduce", "x.py", "--profile", "cpux3"], "no profile called 'cpux3'"),
        (["run", "allreduce", "x.py", "--size", "huge"], "--size huge in mode check: choose tiny, base, large"),
        (["run", "ddp", "x.py", "--mode", "sweep"], "problem ddp has no axis to sweep along"),
        (
            ["run", "allreduce", "x.py", "--mode", "sweep", "--size", "tiny"],
            "no point tiny on cpux2: it has tiny:bytes=4096",
        ),
        (["run", "allreduce", "x.py", "--mode", "sweep", "--profile", "gpu1r2"], "profile gpu1r2 times nothing"),
        (["run", "allreduce", "x.py", "--mode", "fast"], "invalid choice: 'fast'"),
        (["run", "allreduce", "x.py", "--regime", "wet"], "no regime called 'wet'; it has: tiny_values"),
        (["run", "allreduce", "x.py", "--regime", "tiny_values", "--mode", "ranked"], "leave --mode out"),
        (["run", "allreduce", "x.py", "--dtype", "float64"], "can be judged in dtype bfloat16, float16, float32"),
        (["run", "gemm_allreduce", "x.py", "--dtype", "float16"], "can be judged in dtype bfloat16, not in float16"),
        (
            ["run", "allreduce", "x.py", "--dtype", "float16", "--mode", "ranked"],
            "ranked evaluations use dtype bfloat16",
        ),
        (["baseline", "nothing"], "no problem called 'nothing'"),
    ],
)
def test_wrong_calls_get_a_message_that_says_what_is_wrong(arguments: list[str], words: str, capsys) -> None:
    assert status(arguments) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("binary.py", b"\xff\xfe\x00", "not UTF-8"),
        ("nul.py", b"x = 1\0", "NUL byte"),
        ("big.py", b"#" * (600 * 1024), "more than 512 KB"),
        ("broken.zip", b"PK", "zip archive"),
    ],
)
def test_unusable_sources_are_refused(tmp_path: Path, name: str, content: bytes, words: str, capsys) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert status(["run", "allreduce", str(path)]) == 2
    assert words in capsys.readouterr().err


def test_archive_that_leads_outside_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "submission.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("../solution.py", "x = 1")
    done = evaluator("run", "allreduce", str(archive))
    assert done.returncode == 2
    assert "leads outside" in done.stderr


def test_problems_lists_them_for_machines() -> None:
    every = json.loads(evaluator("problems", "--json").stdout)
    assert {"number", "slug", "title", "revision", "sizes"} <= every[0].keys()
    assert "allreduce" in [record["slug"] for record in every]


def test_doctor_says_what_can_be_enforced_and_which_reports_were_refused(tmp_path, monkeypatch) -> None:
    spool = tmp_path / "spool" / "alpha"
    spool.mkdir(parents=True)
    (spool / "12.refused").touch()
    (spool / "12.reason").write_text("This site never gave such a lease.")
    monkeypatch.setenv("PKB_DATA_DIR", str(tmp_path))
    done = evaluator("doctor", "--json")
    record = json.loads(done.stdout)
    assert record["refused_messages"] == [f"{spool / '12.refused'}: This site never gave such a lease."]
    held = {probe["name"]: probe["holds"] for probe in record["probes"]}
    assert record["demanded"] == "reduced"
    assert done.returncode == (1 if record["level"] == "none" else 0)
    if record["level"] != "none":
        assert held["network: own loopback only"]
        assert held["no capability"]
    assert all(probe["detail"] for probe in record["probes"] if not probe["holds"])


def test_probe_lists_the_profiles_of_this_machine() -> None:
    facts = json.loads(evaluator("probe", "--json").stdout)
    assert facts["cores"] >= 1
    assert isinstance(facts["profiles"], list)


def test_no_sandbox_only_when_allowed() -> None:
    refused = evaluator("run", "allreduce", str(SUBMISSIONS / "correct.py"), "--sandbox", "none")
    assert refused.returncode == 3
    assert "not allowed" in refused.stderr
    allowed = evaluator(
        "run", "allreduce", str(SUBMISSIONS / "correct.py"), "--sandbox", "none", "--allow-unsandboxed", "--json"
    )
    assert EvaluationReport.from_json(allowed.stdout).sandbox.value == "none"


def test_baseline_is_measured_and_merged(tmp_path: Path) -> None:
    path = tmp_path / "cpux2.json"
    for slug in ("allreduce", "gemm_allreduce"):
        done = evaluator("baseline", slug, "--output", str(path))
        assert done.returncode == 0, done.stderr
    baselines = json.loads(path.read_text())["baselines"]
    assert set(baselines) == {"allreduce", "gemm_allreduce"}
    assert baselines["allreduce"]["tiny"]["median_us"] > 0
    assert baselines["allreduce"]["tiny"]["met_us"] > 0
    again = evaluator("baseline", "allreduce", "reduce", "--missing", "--output", str(path))
    assert (again.returncode, "allreduce" in again.stdout, "reduce  " in again.stdout) == (0, False, True)


def test_a_command_told_to_end_takes_its_ranks_with_it_and_keeps_what_it_had(tmp_path: Path) -> None:
    path = tmp_path / "cpux2.json"
    line = [sys.executable, "-m", "evaluator", "baseline", "allreduce", "allgather", "--output", str(path)]
    running = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert "allreduce" in running.stdout.readline()
    ranks = [os.pidfd_open(process) for process in procfs.descendants(running.pid)]
    running.terminate()
    assert "every rank has been ended" in running.communicate(timeout=60)[1]
    assert running.returncode == 130
    assert len(ranks) > 2
    for rank in ranks:
        assert select.select([rank], [], [], 30)[0], "a rank outlived its command"
        os.close(rank)
    if path.is_file():
        assert set(json.loads(path.read_text())["baselines"]) == {"allreduce"}
