"""The ways in which an evaluation can end early: by the submission, by the judge, or because nobody wants it."""

from evaluator.contract import Verdict


class SubmissionFault(Exception):
    """The submission is at fault; holds the verdict and a message for its author."""

    def __init__(self, verdict: Verdict, message: str) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.message = message


class EvaluatorError(Exception):
    """The judge or its node failed.

    While a submission's bytes are handled, this ends the evaluation as JUDGE_ERROR; otherwise it is judged again.
    """


class NodeFailure(EvaluatorError):
    """A failure of the node for every submission: a missing compiler, ranks that do not start."""


class Cancelled(EvaluatorError):
    """Nobody wants this evaluation or build any more."""


class LimitExceeded(Exception):
    """What a submission asks for exceeds a limit; the text names the limit and its value."""
