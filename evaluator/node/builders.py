"""The builders of a node: compile what the site sends ahead of a free slot."""

import logging
from collections.abc import Callable

from evaluator.contract import EvaluationReport, EvaluationRequest
from evaluator.errors import Cancelled, EvaluatorError
from evaluator.host.build_ahead import BuildAhead

logger = logging.getLogger(__name__)


class Builders:
    """Compiles up to `number` evaluations at once; each is started by the thread that calls `build`.

    Where the machine cannot confine a build none is offered, and the slots compile for themselves.
    """

    def __init__(self, number: int, *, make: Callable[[], BuildAhead]) -> None:
        self.number = number
        self._make = make
        self._ahead: BuildAhead | None = None

    @property
    def offered(self) -> int:
        """How many builds the site may send at once; 0 until `prepare` has succeeded."""
        return self.number if self._ahead is not None else 0

    def prepare(self) -> None:
        """Find out how a build is confined here."""
        if self.number == 0 or self._ahead is not None:
            return
        try:
            self._ahead = self._make()
        except (EvaluatorError, OSError):
            logger.exception("nothing is compiled ahead of a slot on this node")

    def build(self, request: EvaluationRequest, *, cancelled: Callable[[], bool]) -> EvaluationReport | None:
        """Compile. Returns the report where the build decides the verdict, None where a slot continues.

        An error of the judge is left to the slot, which compiles again and reports it.

        Raises:
            Cancelled: `cancelled()` became true.
        """
        if self._ahead is None:
            return None
        try:
            return self._ahead.build(request, cancelled=cancelled)
        except Cancelled:
            raise
        except Exception:
            # The slot will meet the same error, and decides what it means.
            logger.exception("evaluation %s could not be compiled ahead", request.evaluation_id)
            return None

    def close(self) -> None:
        """Remove the builders' files, except the cache."""
        if self._ahead is not None:
            self._ahead.close()
