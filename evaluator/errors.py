"""The two ways in which an evaluation can go wrong: their fault, or ours."""

from evaluator.contract import Verdict


class SubmissionFault(Exception):
    """The submission is at fault; carries the verdict and a message for its author."""

    def __init__(self, verdict: Verdict, message: str) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.message = message


class EvaluatorError(Exception):
    """The judge or its node failed.

    Where a submission's bytes were in play that ends its evaluation as JUDGE_ERROR, else it is judged again.
    """


class NodeTrouble(EvaluatorError):
    """What the node cannot do whatever the submission is: a compiler that is missing, ranks that do not start."""
