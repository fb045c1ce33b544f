"""The stages before any rank: the source is read, then compiled."""

from dataclasses import replace
from pathlib import Path

import msgspec

from evaluator.contract import Verdict
from evaluator.errors import SubmissionFault
from evaluator.host.building.builder import Builder, Built
from evaluator.host.building.builder_process import BuildCancelled
from evaluator.host.evaluation.job import Job
from evaluator.host.hangs.incidents import EvaluationCancelled
from evaluator.host.machine import backends
from evaluator.host.process.helper_process import HelperCancelled, HelperLimitExceeded, HelperProcess
from evaluator.judging import source_rules
from evaluator.judging.reading import READ_SOURCE, SourceReading


def read(job: Job, helper: HelperProcess) -> SourceReading:
    """What the source shows, read in a helper process that can be ended, and what this node lacks for it.

    Raises:
        EvaluationCancelled: the evaluation was cancelled.
        SubmissionFault: the source cannot be read within the limits.
    """
    seconds = job.policy.within(job.plan.settings.reading_s)
    try:
        text = helper.call(READ_SOURCE, job.request.to_json(), seconds=seconds, cancelled=job.cancelled)
    except HelperCancelled as cancelled:
        raise EvaluationCancelled(str(cancelled)) from cancelled
    except HelperLimitExceeded as exceeded:
        raise SubmissionFault(Verdict.LIMIT_EXCEEDED, f"the source could not be read: {exceeded}") from exceeded
    reading = SourceReading.from_json(text)
    if job.plan.profile.gpu is None:
        return reading
    missing = backends.missing(job.request.source, backend=job.request.backend, node=backends.Node.this())
    return msgspec.structs.replace(reading, findings=(*reading.findings, *missing))


def compile_ahead(job: Job, builder: Builder, *, work_dir: Path) -> Built:
    """Compile what the submission will ask for, before it occupies ranks; raises EvaluatorError."""
    try:
        built = builder.build(
            job.request,
            workdir=work_dir,
            sandbox=job.plan.confinement,
            deadlines=job.deadlines,
            cancelled=job.cancelled,
        )
    except BuildCancelled as cancelled:
        raise EvaluationCancelled(str(cancelled)) from cancelled
    found = source_rules.check_machine_code(built.primitives, profile=job.plan.profile)
    return replace(built, findings=(*built.findings, *found))
