"""A file of requests judged without a site: what comes out, what a second call leaves, and how it ends."""

import gzip
import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from evaluator import cli
from evaluator.batch import BatchError, Line, Results, _shown, read_requests
from evaluator.contract import EvaluationReport, EvaluationRequest, Verdict
from evaluator.host.process import procfs
from evaluator.node.slots import failure_report
from tests.evaluator.judging_help import request_for

ROOT = Path(__file__).parents[2]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "evaluator", "batch", "--profile", "cpux2", *arguments]


def batch(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, cwd=ROOT, timeout=240, check=False)


def written(path: Path, *requests: EvaluationRequest) -> Path:
    text = "".join(f"{request.to_json()}\n" for request in requests).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def named(name: str, number: int) -> EvaluationRequest:
    return msgspec.structs.replace(request_for(name), evaluation_id=f"evaluation-{number}")


def results_of(folder: Path) -> dict[str, Line]:
    return {line.evaluation_id: line for line in Results(folder).lines}


def test_every_request_gets_a_line_and_a_report_and_a_second_call_judges_only_the_rest(tmp_path: Path) -> None:
    right, wrong = named("correct", 1), named("wrong_on_rank_one", 2)
    older = msgspec.structs.replace(named("correct", 3), revision="0" * 16)
    requests, out = written(tmp_path / "requests.jsonl.gz", right, wrong, older), tmp_path / "out"
    first = batch(str(requests), "--output", str(out))
    assert first.returncode == 1, first.stderr
    assert "left out: allreduce (evaluation-3): the problem is of revision" in first.stdout
    assert "2 of 3 have their verdict, 1 are left" in first.stdout
    found = results_of(out)
    assert [(name, line.verdict) for name, line in found.items()] == [
        ("evaluation-1", Verdict.PASSED),
        ("evaluation-2", Verdict.WRONG_RESULT),
    ]
    for name, line in found.items():
        report = EvaluationReport.from_json(gzip.decompress((out / line.report).read_bytes()))
        assert (report.evaluation_id, report.verdict, report.source_digest) == (name, line.verdict, line.source_digest)
        assert line.judged_s > 0
        assert report.world_sizes == ((2, 4) if line.verdict is Verdict.PASSED else ())
        assert line.gap_s is not None
    again = batch(str(requests), "--output", str(out), "--renew")
    assert again.returncode == 0, again.stderr
    assert "evaluation-1" not in again.stdout
    assert results_of(out)["evaluation-3"].verdict is Verdict.PASSED
    assert results_of(out)["evaluation-3"].revision == right.revision


def test_nothing_begins_near_the_limit(tmp_path: Path) -> None:
    requests = written(tmp_path / "requests.jsonl", named("correct", 1))
    done = batch(str(requests), "--output", str(tmp_path / "out"), "--seconds", "10")
    assert done.returncode == 1, done.stderr
    assert "nothing was judged" in done.stdout
    assert not results_of(tmp_path / "out")


def test_a_signal_ends_it_with_every_rank_and_keeps_what_it_had(tmp_path: Path) -> None:
    requests = written(tmp_path / "requests.jsonl", named("correct", 1), *(named("deadlock", n) for n in range(2, 9)))
    line = command(str(requests), "--output", str(tmp_path / "out"), "--work-dir", str(tmp_path / "work"))
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    assert "PASSED" in process.stdout.readline()
    ours = []
    for pid in procfs.descendants(process.pid):
        with suppress(ProcessLookupError):  # what reads a source lives for a moment
            ours.append(os.pidfd_open(pid))
    assert ours
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "1 of 8 have their verdict, 7 are left" in output
    for each in ours:
        assert select.select([each], [], [], 30)[0], "a process outlived the batch"
        os.close(each)
    assert list(results_of(tmp_path / "out")) == ["evaluation-1"]


def test_a_failure_of_the_judge_is_tried_again_with_the_tries_before_it(tmp_path: Path) -> None:
    request, results = named("correct", 1), Results(tmp_path / "out")
    for attempt in (1, 2, 3):
        (wanted,) = results.outstanding([request])
        assert wanted.attempt == attempt
        assert [tried.attempt for tried in wanted.earlier] == list(range(1, attempt))
        report = failure_report(wanted, "a rank did not start")
        results.add(line_of(wanted, report), report)
        assert "to the first call 0.0 s" in _shown(line_of(wanted, report), number=1), "there was none"
    assert not list(Results(tmp_path / "out").outstanding([request]))


def line_of(request: EvaluationRequest, report: EvaluationReport) -> Line:
    return Line(
        evaluation_id=request.evaluation_id, problem=request.problem, profile=request.profile,
        backend=request.backend.value, mode=request.mode.value, source_digest=report.source_digest,
        revision=report.revision, attempt=request.attempt, verdict=report.verdict, message=report.message,
        report=f"reports/{request.evaluation_id}-{request.attempt}.json.gz", at=report.finished_at,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("requests.jsonl", b'{"problem": "allreduce"}\n', "line 1, is no evaluation request"),
        ("requests.jsonl.gz", b"not compressed", "cannot read"),
    ],
)
def test_a_file_that_holds_no_requests_is_named_with_its_line(
    tmp_path: Path, name: str, content: bytes, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BatchError, match=words):
        read_requests(tmp_path / name)
    assert cli.main(["batch", str(tmp_path / name), "--profile", "cpux2", "--output", str(tmp_path / "out")]) == 2
    assert words in capsys.readouterr().err


def test_a_folder_with_foreign_lines_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "results.jsonl").write_text(json.dumps({"verdict": "FINE"}) + "\n")
    with pytest.raises(BatchError, match="line 1, is no result"):
        Results(tmp_path / "out")
