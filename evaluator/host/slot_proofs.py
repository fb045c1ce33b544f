"""Whether a slot may take more work, proved after every evaluation; and the errors of the judge on the way."""

import logging
import traceback

from evaluator.errors import EvaluatorError
from evaluator.host.evaluation.evaluation import Evaluation
from evaluator.host.machine.health import Health
from evaluator.host.process.deadlines import Deadlines
from evaluator.host.ranks.kept_ranks import KeptRanks

logger = logging.getLogger(__name__)

_ERROR_LOG_CHARACTERS = 64 * 1024


class SlotProofs:
    """Proves after an evaluation that its slot is clean and its node works.

    Args:
        health: looks for leftovers and for faults of the driver.
        trusted: the slot's trusted ranks, which run the canary.
    """

    def __init__(self, health: Health, trusted: KeptRanks) -> None:
        self._health = health
        self._trusted = trusted
        self._unclean = ""
        self._errors: list[str] = []

    @property
    def quarantine(self) -> str:
        """Why the slot must not take more work; empty while it is clean."""
        return self._unclean or self._trusted.wrong

    @property
    def error_log(self) -> str:
        """Errors of the judge since `begin`, for the operator only; empty where there were none."""
        return "\n\n".join(self._errors)[:_ERROR_LOG_CHARACTERS]

    def begin(self) -> None:
        """An evaluation begins: forget the errors of the one before."""
        self._errors = []

    def check_quarantine(self) -> None:
        """Raises EvaluatorError where the slot must not take more work."""
        if self.quarantine:
            raise EvaluatorError(f"this slot is not clean and takes no more work: {self.quarantine}")

    def keep_log(self, error_log: str) -> None:
        """Keep what another judge logged for the same evaluation."""
        if error_log:
            self._errors.append(error_log)

    def note(self, evaluation: Evaluation, error: Exception, *, is_nodes: bool) -> None:
        """Keep an error of the judge for the operator, and note it in the evaluation."""
        self._errors.append("".join(traceback.format_exception(error)))
        logger.error("evaluation %s: our error", evaluation.evaluation_id, exc_info=error)
        evaluation.findings.add_error(error, is_nodes=is_nodes)

    def quarantine_for(self, evaluation: Evaluation, error: Exception) -> None:
        """Something of an evaluation did not end: the slot is not clean."""
        self._unclean = str(error)
        self.note(evaluation, error, is_nodes=False)

    def drop_trusted(self, evaluation: Evaluation) -> None:
        """End the trusted ranks. If they stay, the slot is not clean."""
        try:
            self._trusted.drop()
        except EvaluatorError as error:
            self.quarantine_for(evaluation, error)

    def prove_clean(self, evaluation: Evaluation, deadlines: Deadlines) -> None:
        """After an evaluation that used ranks: check that nothing of it is left, and that the devices work.

        Leftovers do not prove that the node was faulty before; the driver and the canary do.
        """
        self._unclean = "; ".join(self._health.leftovers(within=deadlines.ending))
        if self._unclean:
            self.note(evaluation, EvaluatorError(self._unclean), is_nodes=self._health.is_driver_ill)
            self.drop_trusted(evaluation)
            return
        try:
            self._trusted.prove(is_full=evaluation.findings.ended_badly)
        except EvaluatorError as error:
            self.note(evaluation, error, is_nodes=not deadlines.is_over)
            self.drop_trusted(evaluation)

    def rehearse(self, evaluation: Evaluation, deadlines: Deadlines) -> None:
        """After an error of the judge: can this node judge the problem without the submission? If not, it is faulty.

        New trusted ranks run the canary and a call of the reference at every size. A lack of resources in that, such as
        memory, is never attributed to the submission. Where the time is used up, nothing is proved.
        """
        self.drop_trusted(evaluation)
        if self.quarantine or deadlines.is_over:
            return
        try:
            evaluation.rehearse(self._trusted.take())
        except Exception as error:  # noqa: BLE001 - no submission is left that could cause it
            self.note(evaluation, error, is_nodes=not deadlines.is_over)
            self.drop_trusted(evaluation)
