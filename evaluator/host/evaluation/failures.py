"""What ends a worker group becomes findings, with the states of its ranks."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from evaluator.contract import Finding, SandboxLevel, SizeMemory, Verdict
from evaluator.errors import Cancelled, EvaluatorError, NodeFailure
from evaluator.host.hangs.diagnosis import findings_of, rank_states
from evaluator.host.hangs.incidents import IncidentKind, WorkerGroupFailure
from evaluator.host.measure import gpu_memory
from evaluator.host.measure.calls import Caller
from evaluator.host.measure.evidence import Ended, describe_regime, how_to_repeat
from evaluator.host.measure.gpu_memory import GpuMemory
from evaluator.host.ranks.trusted_client import OutOfDeviceMemory
from evaluator.host.ranks.worker_group import WorkerGroup


class JudgeOutOfMemory(OutOfDeviceMemory):
    """The judge lacks memory beside a submission that does not hold most of it; `memory` has both figures."""

    def __init__(self, error: OutOfDeviceMemory, *, memory: SizeMemory | None) -> None:
        super().__init__(str(error))
        self.memory = memory


@contextmanager
def without_the_submission(*, but: tuple[type[EvaluatorError], ...] = ()) -> Iterator[None]:
    """Errors inside are the node's: no process involved holds anything of the submission. Those of `but` pass."""
    passing: tuple[type[EvaluatorError], ...] = (Cancelled, NodeFailure, *but)
    try:
        yield
    except passing:
        raise
    except EvaluatorError as error:
        raise NodeFailure(str(error)) from error


def without_memory(finding: Finding, memory: SizeMemory) -> Finding:
    """A finding that a submission got no memory, with both figures; UNSUPPORTED where the judge left less than half."""
    figures = gpu_memory.describe(memory)
    if memory.judge_bytes <= (1 - gpu_memory.SUBMISSIONS_SHARE) * memory.total_bytes:
        return msgspec.structs.replace(finding, message=f"{figures}: {finding.message}")
    message = f"the judge left less than half of a GPU for the submission: {figures}: {finding.message}"
    return msgspec.structs.replace(finding, verdict=Verdict.UNSUPPORTED, message=message)


class FailureGuard:
    """Blames what ends a worker group on whoever caused it.

    Attributes:
        memory: reads the GPUs' memory, once that has been read without the submission.
    """

    def __init__(self, level: SandboxLevel) -> None:
        self._level = level
        self.memory: GpuMemory | None = None

    @contextmanager
    def over(self, group: WorkerGroup, *, size: str | None, caller: Caller | None = None) -> Iterator[None]:
        """Watch over what `group` does inside. Of the last call `caller` knows the regime.

        Raises:
            Ended: the group or a check of its calls ended the evaluation; with the states of the ranks.
            JudgeOutOfMemory: the judge lacks memory, and not because of the submission.
        """
        try:
            yield
        except WorkerGroupFailure as failure:
            regime = caller.regime if caller is not None else None
            words = describe_regime(regime) + (how_to_repeat(regime, caller.job) if caller is not None else "")
            found = [
                self._with_memory(msgspec.structs.replace(finding, message=finding.message + words))
                for finding in self._blamed(findings_of(failure, size=size), failure)
            ]
            raise Ended(found, ranks=rank_states(failure.observations)) from failure
        except OutOfDeviceMemory as error:
            found = [self._greed(error, size=size)]
            raise Ended(found, ranks=rank_states(group.observe_finished())) from error
        except Ended as ended:
            raise Ended(ended.findings, ranks=rank_states(group.observe_finished())) from ended

    def _blamed(self, findings: tuple[Finding, ...], failure: WorkerGroupFailure) -> tuple[Finding, ...]:
        """The findings; without a sandbox a submission can kill its launcher, which is no JUDGE_ERROR then."""
        has_ended = any(incident.kind is IncidentKind.SANDBOX_ENDED for incident in failure.incidents)
        if self._level is not SandboxLevel.NONE or not has_ended:
            return findings
        message = "the process that started the ranks ended; without a sandbox a submission can cause that"
        return tuple(
            Finding(verdict=Verdict.CRASHED, message=message, size=finding.size)
            if finding.verdict is Verdict.JUDGE_ERROR
            else finding
            for finding in findings
        )

    def _with_memory(self, finding: Finding) -> Finding:
        """The finding; one about memory also says how much GPU memory judge and submission used.

        A submission that did not have its share of the GPU is not to blame: it cannot be judged here.
        """
        memory = self._look()
        if finding.verdict is not Verdict.OUT_OF_MEMORY or memory is None:
            return finding
        return without_memory(finding, memory)

    def _greed(self, error: OutOfDeviceMemory, *, size: str | None) -> Finding:
        """The finding where the submission left the judge no GPU memory; raises JudgeOutOfMemory otherwise."""
        memory = self._look()
        if memory is None or memory.submission_bytes <= gpu_memory.SUBMISSIONS_SHARE * memory.total_bytes:
            raise JudgeOutOfMemory(error, memory=memory) from error
        message = f"the submission left too little GPU memory for its inputs or outputs; {gpu_memory.describe(memory)}"
        return Finding(verdict=Verdict.OUT_OF_MEMORY, message=message, size=size)

    def _look(self) -> SizeMemory | None:
        return self.memory.look() if self.memory is not None else None
