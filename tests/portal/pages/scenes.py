"""Rows as the site itself makes them: people, a node, submissions, and reports recorded under a lease."""

import uuid
from datetime import timedelta
from typing import Any

from django.utils import timezone

from evaluator import contract
from evaluator.contract import (
    SCORE_RULE,
    Backend,
    Delivery,
    EvaluationReport,
    Finding,
    Mode,
    OutputCheck,
    RankState,
    SizeResult,
    SizeTiming,
    SourceBundle,
    SourceFile,
    Stage,
    StageTime,
    TimeSummary,
    Timing,
    Verdict,
)
from evaluator.hardware import profiles
from portal.accounts.models import User
from portal.charts.chart import Chart
from portal.nodes.models import Node, Slot
from portal.submissions import actions
from portal.submissions.models import Evaluation, State, Submission
from problems import registry

PASSWORD = "correct horse battery"
SOLUTION = '''import torch.distributed as dist


def solution(tensor):
    """The sum over all ranks. {remark}"""
    out = tensor.clone()
    dist.all_reduce(out)
    return out
'''


def layer(chart: Chart, name: str) -> Any:
    """The first layer of a chart that has this name; None where there is none."""
    return next((each for each in chart.layers if getattr(each, "name", None) == name), None)


def person(name: str) -> User:
    return User.objects.create_user(username=name, password=PASSWORD)


def node(*, profile: str = "cpux2", state: str = "free", name: str = "local") -> Node:
    made = Node.objects.create(
        name=name,
        key_digest="0" * 64,
        seen_at=timezone.now(),
        sandbox="reduced",
        backends=["pytorch"],
        revisions={problem.slug: registry.revision(problem.slug) for problem in registry.problems()},
        environment={"torch": "2.13.0", "python": "3.11"},
    )
    Slot.objects.create(node=made, index=0, profile=profile, state=state)
    return made


def submit(
    author: User,
    *,
    remark: str = "",
    visibility: str = "private",
    mode: str = "ranked",
    problem: str = "allreduce",
    profile: str = "cpux2",
) -> Submission:
    remark = remark or uuid.uuid4().hex
    own = SOLUTION.format(remark=remark) if problem == "allreduce" else None
    text = own or f"{registry.reference_source(problem)}\n# {remark}\n"
    submitted = actions.create_submission(
        author,
        problem=problem,
        backend="pytorch",
        profile=profile,
        mode=mode,
        files=SourceBundle(files=(SourceFile(path="solution.py", text=text),)),
        visibility=visibility,
    )
    return submitted.submission


def lease(submission: Submission, at: Node, *, state: str = State.RUNNING, stage: str = "verifying") -> Evaluation:
    """Put the submission's evaluation on the node's slot, as the dispatcher does."""
    now = timezone.now()
    evaluation = submission.evaluations.get()
    Evaluation.objects.filter(pk=evaluation.pk).update(
        state=state,
        lease=uuid.uuid4().hex,
        node=at,
        slot_index=0,
        lease_expires_at=now + timedelta(minutes=1),
        started_at=now,
        stage=stage,
        stage_detail="call 3 of 8 at size tiny",
        stage_fraction=0.4,
        stage_since=now,
    )
    evaluation.refresh_from_db()
    return evaluation


def timing(
    score: float = 1.25, *, sizes: tuple[str, ...] = ("tiny",), ranks: int = 2, rule: int = SCORE_RULE
) -> Timing:
    blocks = tuple(score + 0.01 * (index - 6) for index in range(12))
    ordered = sorted(blocks)
    median = (ordered[5] + ordered[6]) / 2
    candidate = TimeSummary(median_us=80.0, p10_us=75.0, p90_us=92.0, calls=240)
    baseline = TimeSummary(median_us=100.0, p10_us=95.0, p90_us=110.0, calls=240)
    timings = tuple(
        SizeTiming(
            size=size,
            candidate=candidate,
            baseline=baseline,
            ratios=blocks,
            rank_medians_us=(79.0, *[80.0] * (ranks - 1)),
            score=median,
            low=ordered[2],
            high=ordered[9],
            empty_us=20.0,
            candidate_empty_us=21.0,
            forgeable_us=5.0,
        )
        for size in sizes
    )
    return Timing(score=median, low=ordered[2], high=ordered[9], blocks=blocks, sizes=timings, rule=rule)


def report(
    evaluation: Evaluation, *, verdict: Verdict = Verdict.PASSED, score: float = 1.25, rule: int = SCORE_RULE
) -> EvaluationReport:
    submission = evaluation.submission
    profile = profiles.get(evaluation.profile)
    is_timed = verdict is Verdict.PASSED and Mode(evaluation.mode).is_timed and profile.measures_time
    is_wrong = verdict is Verdict.WRONG_RESULT
    checks = tuple(
        OutputCheck(
            rank=rank,
            output="out",
            elements=6144,
            wrong_elements=512 if is_wrong else 0,
            max_error=40.0 if is_wrong else 0.3,
            rms_error=0.8 if is_wrong else 0.001,
            first_wrong=(0, 17) if is_wrong else None,
        )
        for rank in range(2)
    )
    ranks = tuple(
        RankState(
            rank=rank,
            exit="exit 0" if verdict is not Verdict.RUNTIME_ERROR or rank else "exit 1",
            phase="after the last call" if verdict is Verdict.PASSED else "in call 0 at size tiny, inside solution",
            calls_done=8,
            error=None if verdict is not Verdict.RUNTIME_ERROR or rank else "ValueError: <b>bad</b> shape",
            stack=None
            if verdict is Verdict.PASSED
            else 'File "solution.py", line 7, in solution\n    dist.all_reduce(out)',
            log="hello from a rank\n" if rank == 0 else "",
        )
        for rank in range(2)
    )
    message = (
        "Every checked call was right on every rank." if verdict is Verdict.PASSED else "Rank 0 is the first to differ."
    )
    return EvaluationReport(
        evaluation_id=str(evaluation.pk),
        problem=submission.problem,
        revision=evaluation.problem_revision,
        source_digest=submission.source.digest,
        backend=Backend(submission.backend),
        profile=evaluation.profile,
        world_size=profile.world_size,
        mode=Mode(evaluation.mode),
        dtype="bfloat16",
        verdict=verdict,
        message=message,
        findings=(Finding(verdict=verdict, message=message, rank=0, size="tiny", file="solution.py", line=7),),
        stages=tuple(StageTime(stage=stage, seconds=0.5) for stage in Stage),
        sizes=tuple(
            SizeResult(size=size, dims={"M": 64, "N": 96}, calls=8, checked_calls=8, outputs=checks)
            for size in profile.sizes[Mode(evaluation.mode)][:1]
        ),
        timing=timing(score, sizes=profile.sizes[Mode.RANKED], ranks=profile.world_size, rule=rule)
        if is_timed
        else None,
        ranks=ranks,
        build=contract.BuildResult(
            succeeded=False, seconds=3.1, cached=False, command="nvcc x.cu", log="x.cu(3): error"
        )
        if verdict is Verdict.COMPILE_ERROR
        else None,
        sandbox=contract.SandboxLevel.REDUCED,
        environment={"torch": "2.13.0"},
        started_at="2026-11-21T02:00:00Z",
        finished_at="2026-11-21T02:00:09Z",
        is_untimed=not profile.measures_time,
    )


def judged(
    author: User,
    at: Node,
    *,
    verdict: Verdict = Verdict.PASSED,
    score: float = 1.25,
    visibility: str = "private",
    mode: str = "ranked",
    problem: str = "allreduce",
    profile: str = "cpux2",
    rule: int = SCORE_RULE,
) -> Submission:
    """A submission whose evaluation ended with `verdict`, through the same action that hears from nodes."""
    submission = submit(author, visibility=visibility, mode=mode, problem=problem, profile=profile)
    evaluation = lease(submission, at)
    delivery = Delivery(
        lease=evaluation.lease or "", node=at.name, report=report(evaluation, verdict=verdict, score=score, rule=rule)
    )
    assert actions.record_delivery(delivery, timezone.now())
    return submission
