"""Submissions and reports as tests need them; each uses the real actions."""

import itertools
from collections.abc import Sequence

from evaluator.contract import (
    SCORE_RULE,
    Backend,
    Delivery,
    Detection,
    EvaluationReport,
    EvidenceSource,
    Mode,
    Primitive,
    SizeTiming,
    SourceBundle,
    SourceFile,
    Timing,
    Verdict,
)
from evaluator.hardware import profiles
from portal.submissions import actions
from portal.submissions.models import Evaluation, Submission

PROBLEM = "allreduce"
SOLUTION = """import torch.distributed as dist


def solution(tensor):
    out = tensor.clone()
    dist.all_reduce(out)
    return out
"""
_numbers = itertools.count()


def bundle(text: str | None = None) -> SourceBundle:
    """A bundle of one file; without `text` a right one that no other call returns."""
    source = f"{SOLUTION}\n# {next(_numbers)}\n" if text is None else text
    return SourceBundle(files=(SourceFile(path="solution.py", text=source),))


def submit(author, **changes) -> Submission:
    """A submission to all-reduce on cpux2, with `changes` to the arguments of `create_submission`."""
    arguments = {"problem": PROBLEM, "backend": "pytorch", "profile": "cpux2", "mode": "ranked", "files": bundle()}
    return actions.create_submission(author, **(arguments | changes)).submission


def evaluation_of(submission: Submission) -> Evaluation:
    return submission.evaluations.get()


def report_on(
    evaluation: Evaluation,
    *,
    verdict: Verdict = Verdict.PASSED,
    low: float = 1.0,
    rule: int = SCORE_RULE,
    primitives: Sequence[Primitive] = (),
    sizes: Sequence[SizeTiming] = (),
) -> EvaluationReport:
    """What a judge would say of `evaluation`; the score's interval starts at `low` and is 0.2 wide, by `rule`."""
    submission = evaluation.submission
    timing = None
    profile = profiles.get(evaluation.profile)
    if profile.measures_time and verdict is Verdict.PASSED and Mode(evaluation.mode).is_scored:
        timing = Timing(
            score=low + 0.1, low=low, high=low + 0.2, blocks=(low + 0.1,) * 12, sizes=tuple(sizes), rule=rule
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
        message=f"the verdict is {verdict}",
        timing=timing,
        is_untimed=not profile.measures_time,
        primitives=tuple(
            Detection(primitive=each, evidence=EvidenceSource.SOURCE, detail="seen") for each in primitives
        ),
    )


def delivery_of(evaluation: Evaluation, *, lease: str | None = None, node: str = "alpha", **report) -> Delivery:
    """The delivery of a report by the node that holds the lease."""
    evaluation.refresh_from_db()
    return Delivery(lease=lease or evaluation.lease or "", node=node, report=report_on(evaluation, **report))
