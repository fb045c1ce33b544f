"""Kill any process at any moment: the verdict names the cause, no process is left, the next evaluation passes."""

import dataclasses
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evaluator.contract import EvaluationReport, Stage, Verdict
from evaluator.host import Judge
from evaluator.host.process import procfs
from evaluator.host.process.deadlines import Deadlines
from evaluator.judging.verdicts import FACTS
from tests.evaluator.conftest import SETTINGS
from tests.evaluator.judging_help import SUBMISSIONS, request_for, request_for_text

ROOT = Path(__file__).parents[2]

SLOW = (
    "import time\n\nimport torch.distributed as dist\n\n\ndef solution(tensor):\n    out = tensor.clone()\n"
    "    print('inside', flush=True)\n    time.sleep(1.5)\n    dist.all_reduce(out)\n    return out\n"
)


def descendants(root: int) -> dict[int, list[str]]:
    """Every process below `root` with its command line, without whole nodes that other tests keep running."""
    parents: dict[int, int] = {}
    lines: dict[int, list[str]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # A name may be anything, and need not be UTF-8.
            parent = int((folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
            line = (folder / "cmdline").read_text(errors="replace").split("\0")
        except OSError:
            continue
        parents[int(folder.name)], lines[int(folder.name)] = parent, line
    found: dict[int, list[str]] = {}
    frontier = {root}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier and not is_node(lines[pid])}
        found |= {pid: lines[pid] for pid in frontier}
    return found


def is_node(line: list[str]) -> bool:
    """Whether a command line is a node's, which has a judge and ranks of its own."""
    return "evaluator.node" in line


LAUNCHER, TRUSTED_LAUNCHER = "arena/rank/launcher.py", "evaluator.oracle.launcher"


def processes_of(part: str) -> list[int]:
    """Processes of ours that run `part`: launchers, and the ranks that they forked."""
    below = descendants(os.getpid())
    return [pid for pid, line in below.items() if part in " ".join(line) and "bwrap" not in line[0]]


def launcher_of(part: str) -> int:
    """The youngest launcher that has forked its ranks: of the judge made last; another one may wait for its word."""
    ours = processes_of(part)
    return max({parent for pid in ours if (parent := procfs.parent_of(pid)) in ours and parent is not None}, key=_birth)


def ranks_of(part: str) -> list[int]:
    """The ranks of that launcher, in the order of their forks; numbers of processes begin again some time."""
    launcher = launcher_of(part)
    return sorted((pid for pid in processes_of(part) if procfs.parent_of(pid) == launcher), key=_birth)


def _birth(pid: int) -> tuple[int, int]:
    """When a process began, in ticks; and its number in its own namespace, which is as young as a sandbox."""
    folder = Path("/proc", str(pid))
    began = int((folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[19])
    facts = dict(line.split(":", 1) for line in (folder / "status").read_text(errors="replace").splitlines())
    return began, int(facts["NSpid"].split()[-1])


def evaluate_and_strike(judge: Judge, victim: Callable[[], int]) -> EvaluationReport:
    """Judge a slow program, and kill one process once its first call has begun."""
    verifying = threading.Event()

    def progress(stage: Stage, _detail: str, _fraction: float | None) -> None:
        if stage is Stage.VERIFYING:
            verifying.set()

    reports: list[EvaluationReport] = []
    thread = threading.Thread(target=lambda: reports.append(judge.evaluate(request_for_text(SLOW), progress=progress)))
    thread.start()
    assert verifying.wait(120)
    os.kill(victim(), signal.SIGKILL)
    thread.join(120)
    assert reports, "the evaluation did not end"
    return reports[0]


@pytest.fixture(scope="module", autouse=True)
def nothing_stays(alone: None) -> Iterator[None]:
    before = set(descendants(os.getpid()))
    yield
    deadline = time.monotonic() + 60
    while (left := set(descendants(os.getpid())) - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


@pytest.fixture(scope="module")
def judge(nothing_stays: None, work_dir: Path) -> Iterator[Judge]:
    with Judge(dataclasses.replace(SETTINGS, work_dir=work_dir)) as started:
        yield started


STRIKES: list[tuple[Callable[[], int], Verdict, str]] = [
    (lambda: ranks_of(LAUNCHER)[1], Verdict.CRASHED, "rank 1 was ended by signal SIGKILL"),
    (lambda: launcher_of(LAUNCHER), Verdict.JUDGE_ERROR, "sandbox ended"),
    (lambda: launcher_of(TRUSTED_LAUNCHER), Verdict.JUDGE_ERROR, "the operator has the log"),
]


@pytest.mark.parametrize(
    ("victim", "verdict", "words"),
    STRIKES,
    ids=["sandbox rank 1", "sandbox launcher", "oracle launcher"],
)
def test_killed_process_is_blamed_on_the_right_party(
    judge: Judge, victim: Callable[[], int], verdict: Verdict, words: str
) -> None:
    report = evaluate_and_strike(judge, victim)
    assert report.verdict is verdict, report.message
    assert words in report.message
    assert judge.evaluate(request_for("correct")).verdict is Verdict.PASSED


def test_an_error_of_ours_with_a_submission_is_shown_to_the_operator_and_not_to_the_author(judge: Judge) -> None:
    report = evaluate_and_strike(judge, lambda: ranks_of(TRUSTED_LAUNCHER)[0])
    assert report.verdict is Verdict.JUDGE_ERROR, report.message
    assert "the operator has the log" in report.message
    assert "of the oracle" in judge.error_log or "oracle rank" in judge.error_log
    assert "Traceback" in judge.error_log
    assert "Traceback" not in report.to_json()
    assert report.canaries[-1].failures == (), "new oracle ranks have shown that the node is well"
    assert judge.evaluate(request_for("correct")).verdict is Verdict.PASSED
    assert not judge.error_log


def test_an_error_on_a_node_that_cannot_judge_by_itself_either_is_the_nodes(tmp_path: Path) -> None:
    """Its work directory goes away: without a submission, too, nothing can be started there."""
    work_dir = tmp_path / "work"
    work_dir.mkdir()
    with Judge(dataclasses.replace(SETTINGS, work_dir=work_dir, warm=False)) as judge:

        def strike(stage: Stage, _detail: str, _fraction: float | None) -> None:
            if stage is Stage.VERIFYING and work_dir.exists():
                shutil.rmtree(work_dir)
                os.kill(ranks_of(TRUSTED_LAUNCHER)[-1], signal.SIGKILL)

        report = judge.evaluate(request_for_text(SLOW), progress=strike)
    assert report.verdict is Verdict.JUDGE_FAILURE, report.findings


def test_a_lack_of_memory_beside_a_submission_alone_is_neither_charged_nor_another_try(tmp_path: Path) -> None:
    """The oracle ranks of this evaluation may map no more memory; new ones, without the submission, may."""
    with Judge(dataclasses.replace(SETTINGS, work_dir=tmp_path, warm=False)) as judge:

        def strike(stage: Stage, _detail: str, _fraction: float | None) -> None:
            if stage is Stage.VERIFYING:
                for pid in ranks_of(TRUSTED_LAUNCHER):
                    resource.prlimit(pid, resource.RLIMIT_AS, (1, 1))

        report = judge.evaluate(request_for("correct"), progress=strike)
        assert report.verdict is Verdict.UNSUPPORTED, report.findings
        assert "no memory left" in report.message
        assert "Traceback" in judge.error_log
        assert not FACTS[report.verdict].is_charged
        assert not FACTS[report.verdict].is_retried
        assert judge.evaluate(request_for("correct")).verdict is Verdict.PASSED


def test_judge_closed_while_its_first_group_starts_leaves_no_process(tmp_path: Path) -> None:
    for _ in range(3):
        Judge(dataclasses.replace(SETTINGS, work_dir=tmp_path)).close()
    deadline = time.monotonic() + 60
    while (left := _processes_naming(str(tmp_path))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


def _processes_naming(text: str) -> list[int]:
    """Processes with `text` on their command line: bubblewrap's name the folders that they show."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text in path.read_text(errors="replace"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_evaluation_as_a_whole_has_a_deadline(judge: Judge) -> None:
    assert judge.evaluate(request_for("correct")).verdict is Verdict.PASSED  # the judge's own ranks have started
    report = judge.evaluate(request_for("correct"), deadlines=Deadlines(time.monotonic()))
    assert report.verdict is Verdict.TIMEOUT
    assert "the evaluation took longer than" in report.message


def test_killed_host_takes_its_ranks_along(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "evaluator", "run", "allreduce", str(SUBMISSIONS / "deadlock.py")]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT) as host:
        assert host.stderr is not None
        assert any(line.startswith("verifying") for line in host.stderr)
        assert _processes_naming(str(tmp_path))
        host.kill()
    deadline = time.monotonic() + 60
    while (left := _processes_naming(str(tmp_path))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left
