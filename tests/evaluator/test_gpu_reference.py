"""On GPUs: programs that load links, processors and devices while the reference is timed gain nothing unseen."""

import pytest

from evaluator.contract import Backend, EvaluationReport, Mode, Verdict
from evaluator.host import Judge, JudgeSettings
from tests.evaluator.test_gpu import PROFILE, WORLD_SIZE, on_gpus, request

pytestmark = [*on_gpus, pytest.mark.skipif(WORLD_SIZE < 2, reason="needs two GPUs")]

HONEST = "correct"
SLACK = 1.03
"""Scores of one program vary by so much from judgement to judgement."""


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    with Judge(JudgeSettings(profile=PROFILE, work_dir=tmp_path_factory.mktemp("slot"))) as started:
        yield started


@pytest.fixture(scope="module")
def honest(judge) -> EvaluationReport:
    report = judge.evaluate(request(HONEST, "allreduce", Backend.PYTORCH, Mode.RANKED))
    assert report.verdict is Verdict.PASSED, (report.message, report.findings)
    assert not report.alarms, report.alarms
    return report


@pytest.mark.parametrize("how", ["links", "heat", "linger"])
def test_what_slows_the_reference_is_refused_or_seen_or_without_effect(judge, honest, how):
    asked = request("gpu_slows_reference", "allreduce", Backend.PYTORCH, Mode.RANKED)
    [file] = asked.source.files
    text = file.text.replace('_HOW = "links"', f'_HOW = "{how}"')
    report = judge.evaluate(_with_text(asked, text))
    print(how, report.verdict, report.timing and (report.timing.low, report.timing.high), report.alarms)  # noqa: T201
    assert report.verdict not in (Verdict.JUDGE_ERROR, Verdict.JUDGE_FAILURE), report.findings
    if report.verdict is Verdict.PASSED:
        assert report.alarms or report.timing.low <= honest.timing.high * SLACK
    assert judge.evaluate(request(HONEST, "allreduce", Backend.PYTORCH, Mode.CHECK)).verdict is Verdict.PASSED


def _with_text(asked, text):
    import msgspec

    [file] = asked.source.files
    source = msgspec.structs.replace(asked.source, files=(msgspec.structs.replace(file, text=text),))
    return msgspec.structs.replace(asked, source=source)
