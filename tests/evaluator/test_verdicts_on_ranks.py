"""Small programs on real ranks in a real sandbox: each gets its verdict, the rank is named, nothing stays behind."""

import dataclasses
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import msgspec
import pytest

from evaluator.contract import (
    CallKind,
    EvaluationReport,
    Mode,
    SandboxLevel,
    SourceBundle,
    SourceFile,
    Stage,
    Verdict,
)
from evaluator.errors import Cancelled
from evaluator.host import Judge
from evaluator.judging.recompute import recompute
from portal.submissions.reports.failing_lines import failing_lines
from tests.evaluator.conftest import SETTINGS
from tests.evaluator.judging_help import request_for, request_for_text
from tests.evaluator.program_verdicts import PROGRAMS

Judged = Callable[[str], EvaluationReport]


@pytest.fixture(scope="module")
def descriptors() -> list[int]:
    """How many this process had open after each program, before a test had another judge."""
    return []


@pytest.fixture(scope="module")
def judged(judge: Judge) -> Judged:
    """The report on a program in check mode, from one evaluation for all tests that read it."""
    return cache(lambda name: judge.evaluate(request_for(name)))


def shared_files() -> set[str]:
    # A database that other tests started at the same time keeps its own files there.
    return {path.name for path in Path("/dev/shm").iterdir() if not path.name.startswith("PostgreSQL.")}


def _read(path: Path) -> bytes:
    """A file of /proc; empty where its process has just ended."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def group_directories(judge: Judge) -> int:
    return len(list(Path(str(judge.settings.work_dir)).glob("*/group-*")))


@pytest.mark.parametrize(("name", "verdict", "rank", "words"), PROGRAMS, ids=[program[0] for program in PROGRAMS])
def test_program_gets_its_verdict(
    judge: Judge, judged: Judged, descriptors: list[int], *, name: str, verdict: Verdict, rank: int | None, words: str
) -> None:
    shared = shared_files()
    report = judged(name)
    assert report.verdict is verdict, report.message
    assert words in report.message
    decided = next(finding for finding in report.findings if finding.verdict is verdict)
    if rank is not None:
        assert decided.rank == rank
    assert shared_files() <= shared
    assert group_directories(judge) <= 1  # the next worker group's
    descriptors.append(len(list(Path("/proc/self/fd").iterdir())))
    assert descriptors[-1] == descriptors[0], "descriptors leak"


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """A judge whose calls may take so long that no busy machine reaches their limit."""
    work_dir = tmp_path_factory.mktemp("patient")
    with Judge(dataclasses.replace(SETTINGS, work_dir=work_dir, call_limit_s=90.0, warm=False)) as judge:
        yield judge


def test_a_deadlock_is_found_long_before_a_deadline_and_shows_where_each_rank_waits(patient: Judge) -> None:
    report = patient.evaluate(request_for("deadlock"))
    assert " hung, and no rank was running" in report.message
    assert "(collective 1 of the call, all_reduce of bfloat16[" in report.message
    assert "rank 1 waits at the end of call 1 (no collective in the call)" in report.message
    (unfinished, _joined), (last,) = (rank.collectives for rank in report.ranks)
    assert (unfinished.operation, unfinished.number, unfinished.ranks) == ("all_reduce", 1, (0, 1))
    assert not unfinished.is_done
    assert last.is_done
    stack = report.ranks[0].stack or ""
    assert 'solution.py", line 7 in solution' in stack
    assert "c10d::Work::wait" in stack  # the native one
    assert "c10d::" not in report.ranks[0].log


def test_a_sleeping_rank_is_slow_and_not_deadlocked(patient: Judge) -> None:
    """Longer than the host's patience, with its peer in a collective and nobody at work."""
    report = patient.evaluate(
        request_for_text(
            "import time\n\nimport torch.distributed as dist\n\nslept = []\n\n\ndef solution(tensor):\n"
            "    out = tensor.clone()\n    if dist.get_rank() == 1 and not slept:\n"
            "        slept.append(time.sleep(3.5))\n"
            "    dist.all_reduce(out)\n    return out\n"
        )
    )
    assert report.verdict is Verdict.PASSED, report.message


APART = """import torch.distributed as dist


def solution(tensor):
    out = tensor.clone()
    if dist.get_rank() == 0:
        dist.all_reduce(out)
    else:
        dist.broadcast(out, src=0)
    return out
"""
HELPED = """import torch.distributed as dist

from parts.plans import checked


def solution(tensor):
    out = tensor.clone()
    if dist.get_rank() == 1:
        checked(out)
    dist.all_reduce(out)
    return out
"""
HELPER = """def checked(tensor):
    raise ValueError(f"no plan for {tensor.shape}")
"""


def marks(report: EvaluationReport, *paths: str) -> list[tuple[str, int, bool]]:
    return [(mark.path, mark.line, mark.is_quiet) for mark in failing_lines(report, paths=["solution.py", *paths])]


def test_where_one_raises_and_one_waits_the_line_that_raised_is_marked(judged: Judged) -> None:
    report = judged("raises_on_rank_one")
    assert [(found.rank, found.file, found.line) for found in report.findings] == [(1, "solution.py", 6)]
    assert marks(report) == [("solution.py", 6, False), ("solution.py", 8, True)]


def test_where_one_loops_and_one_waits_the_loop_is_marked(judged: Judged) -> None:
    failing, waiting = marks(judged("infinite_loop"))
    assert failing in (("solution.py", 6, False), ("solution.py", 7, False))
    assert waiting == ("solution.py", 8, True)


def test_where_ranks_wait_in_different_collectives_both_lines_are_marked(judge: Judge) -> None:
    report = judge.evaluate(request_for_text(APART))
    assert report.verdict is Verdict.DEADLOCK, report.message
    assert report.findings[0].file is None
    assert marks(report) == [("solution.py", 7, False), ("solution.py", 9, False)]


def test_a_line_of_another_file_is_marked_in_that_file(judge: Judge) -> None:
    files = tuple(
        SourceFile(path=path, text=text)
        for path, text in (("solution.py", HELPED), ("parts/__init__.py", ""), ("parts/plans.py", HELPER))
    )
    request = msgspec.structs.replace(request_for_text(HELPED), source=SourceBundle(files=files))
    report = judge.evaluate(request)
    assert marks(report, "parts/plans.py") == [("parts/plans.py", 2, False), ("solution.py", 10, True)]


def test_traceback_shows_the_authors_lines_only(judged: Judged) -> None:
    report = judged("raises_on_rank_one")
    error = report.ranks[1].error
    assert error is not None
    assert 'solution.py", line 6' in error
    assert "arena" not in error


def test_sandbox_refuses_what_a_submission_must_not_reach(judged: Judged) -> None:
    log = judged("explores").ranks[0].log
    attempts = re.findall(r"^(\w+): (\w+)", log, flags=re.MULTILINE)
    assert len(attempts) == 14
    assert {outcome for _, outcome in attempts} == {"refused"}, log


def test_output_is_kept_head_and_tail_without_control_characters(judged: Judged) -> None:
    report = judged("prints_a_lot")
    log, lacks = report.ranks[0].log, report.ranks[0].log_lacks
    assert log.startswith("first words")
    assert log.rstrip().endswith("last words")
    assert f"{lacks} bytes left out" in log
    assert any(note.startswith(f"rank 0 printed more than is kept: {lacks:,} bytes") for note in report.notes)
    assert "\x1b" not in log
    assert len(log) < 300_000


def test_processes_that_left_their_session_are_killed(judge: Judge) -> None:
    report = judge.evaluate(request_for("leaves_processes"))
    assert report.verdict is Verdict.PASSED
    assert report.ranks[0].log.strip() == "started"
    names = [_read(path).decode().strip() for path in Path("/proc").glob("[0-9]*/comm")]
    assert "left_behind" not in names
    assert not Path("/dev/shm/left_behind").exists()


def test_every_rank_is_late_in_every_second_skewed_call_of_a_check(judged: Judged) -> None:
    report = judged("correct")
    assert report.record is not None
    skewed = [call.delays_us for call in report.record.sizes[0].calls if call.kind is CallKind.SKEWED]
    assert len(skewed) == 4
    for first, second in (skewed[:2], skewed[2:]):
        assert all(bool(once) is not bool(twice) for once, twice in zip(first, second, strict=True))


def test_ranked_evaluation_is_timed_against_the_reference(judge: Judge) -> None:
    report = judge.evaluate(request_for("correct", mode=Mode.RANKED))
    assert report.verdict is Verdict.PASSED, report.message
    timing = report.timing
    assert timing is not None
    assert report.record is not None
    assert len(timing.blocks) == len(report.record.sizes[0].blocks) > 2
    assert timing.low <= timing.score <= timing.high
    assert len(timing.sizes[0].rank_medians_us) == 2
    assert [stage.stage for stage in report.stages][-1] is Stage.COMPARING
    assert recompute(EvaluationReport.from_json(report.to_json())).agrees
    kinds = {call.kind for call in report.record.sizes[0].calls}
    assert kinds == {CallKind.PLAIN, CallKind.SKEWED, CallKind.NEAR, CallKind.REGIME, CallKind.RECORDED}


def test_wrong_answer_among_the_timed_calls_is_refused(judge: Judge) -> None:
    late = (
        "import torch.distributed as dist\ncalls = 0\n\n\ndef solution(tensor):\n    global calls\n    calls += 1\n"
        "    out = tensor.clone()\n    if calls < 20:\n        dist.all_reduce(out)\n    return out\n"
    )
    report = judge.evaluate(request_for_text(late, mode=Mode.RANKED))
    assert report.verdict is Verdict.WRONG_RESULT
    assert report.timing is None


def test_report_survives_json_and_records_what_was_enforced(judged: Judged) -> None:
    report = judged("correct")
    assert EvaluationReport.from_json(report.to_json()) == report
    assert report.sandbox is not SandboxLevel.NONE
    assert re.fullmatch(r"[0-9a-f]{64}", report.commitment)
    assert report.environment["judge.check_calls"] == "7"


def test_progress_follows_the_stages_and_no_two_evaluations_share_a_secret(judge: Judge, judged: Judged) -> None:
    seen: list[Stage] = []
    again = judge.evaluate(request_for("correct"), progress=lambda stage, _detail, _fraction: seen.append(stage))
    assert again.commitment != judged("correct").commitment
    order = list(Stage)
    assert seen[0] is Stage.PREPARING
    assert seen[-1] is Stage.REPORTING
    assert {Stage.STARTING, Stage.VERIFYING} <= set(seen)
    assert order.index(seen[-1]) == len(order) - 1


def test_cancelled_evaluation_ends_and_the_next_one_passes(judge: Judge) -> None:
    asked: list[Stage] = []

    def is_cancelled() -> bool:
        return Stage.VERIFYING in asked

    judge.evaluate(request_for("correct"))
    if judge.slot.trusted.are_spent:  # others would serve next
        judge.evaluate(request_for("correct"))
    trusted = judge.slot.trusted.processes
    with pytest.raises(Cancelled):
        judge.evaluate(request_for("deadlock"), progress=lambda stage, *_: asked.append(stage), cancelled=is_cancelled)
    assert group_directories(judge) <= 1
    assert judge.slot.trusted.processes == trusted
    assert judge.evaluate(request_for("correct")).verdict is Verdict.PASSED


def test_closed_judge_leaves_neither_processes_nor_files(tmp_path: Path) -> None:
    shared = shared_files()
    with Judge(dataclasses.replace(SETTINGS, work_dir=tmp_path, warm=False)) as judge:
        assert judge.evaluate(request_for("correct")).verdict is Verdict.PASSED
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())
    assert shared_files() <= shared
    own = str(tmp_path).encode()
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if own in _read(path)]
