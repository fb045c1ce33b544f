"""Findings about wrong outputs: what is wrong with them, and why."""

import time
from collections.abc import Callable, Sequence

from evaluator.contract import CallKind, Finding, Verdict
from evaluator.host.measure import outputs
from evaluator.host.measure.call_checks import VALUE_VERDICTS, CallChecks, Outcome
from evaluator.host.measure.call_outputs import CallOutputs, Taken
from evaluator.host.measure.evidence import in_words
from evaluator.host.measure.exchange import KEY_BYTES, Exchanges
from evaluator.host.ranks.oracle_group import Draw, RankCheck
from problems.spec.schema import Regime

_KINDS = {
    CallKind.SKEWED: " (ranks started at different times)",
    CallKind.NEAR: " (only a few elements were new)",
    CallKind.RECORDED: " (the profiler recorded it)",
}

_REPLAYS = 2
_LATE_S = 0.1
"""How long after a wrong output the judge waits for late writes before it reads the output again."""


def wrong_values(
    checks: Sequence[RankCheck],
    *,
    size: str,
    call: int,
    kind: CallKind = CallKind.PLAIN,
    regime: Regime | None = None,
) -> list[Finding]:
    """Findings from the checks of call number `call`; stale outputs are named so."""
    special = _KINDS.get(kind, "") if regime is None else in_words(regime)
    found = []
    for item in checks:
        if item.verdict is None:
            continue
        where = f"rank {item.rank}, call {call}{special}: "
        if item.stale is not None:
            message = f"{where}output {item.output!r} is the correct output of an earlier call, not of this one"
            found.append(_finding(item, Verdict.STALE_OUTPUT, message, size))
        found.append(_finding(item, item.verdict, where + item.message, size))
    return found


def _finding(item: RankCheck, verdict: Verdict, message: str, size: str) -> Finding:
    drawn = item.error_map if verdict is item.verdict else None
    return Finding(verdict=verdict, message=message, rank=item.rank, size=size, output=item.output, error_map=drawn)


class WhyWrong:
    """Finds out why values are wrong: written too late, never written, or correct by chance.

    Args:
        exchanges: stores outputs again.
        outputs: compares them.
        checks: makes findings.
        again: makes a checked call on the inputs of a draw.
    """

    def __init__(
        self,
        exchanges: Exchanges,
        outputs: CallOutputs,
        *,
        checks: CallChecks,
        again: Callable[[Draw], Outcome],
    ) -> None:
        self._exchanges = exchanges
        self._outputs = outputs
        self._checks = checks
        self._again = again

    def explain(self, draw: Draw, outcome: Outcome) -> list[Finding]:
        """The reasons that can be shown; none where the values are just wrong."""
        wrong = [item for item in outcome.checks if item.verdict in VALUE_VERDICTS and item.stale is None]
        if not wrong:
            return []
        unwritten = [
            self._checks.finding(
                Verdict.INCOMPLETE_OUTPUT,
                f"rank {item.rank}: {item.unwritten:.1%} of output {item.output!r} was never written",
                rank=item.rank,
                output=item.output,
            )
            for item in wrong
            if item.unwritten
        ]
        first = wrong[0]
        if self.is_correct_by_now(draw, outcome):
            message = (
                f"rank {first.rank}, call {outcome.record.number}: output {first.output!r} was wrong when the call "
                "ended and correct a little later, so something was still writing to it"
            )
            late = self._checks.finding(Verdict.INCOMPLETE_OUTPUT, message, rank=first.rank, output=first.output)
            return [*unwritten, late]
        return unwritten or self._replayed(draw, first)

    def is_correct_by_now(self, draw: Draw, outcome: Outcome) -> bool:
        """Whether the returned outputs are correct when they are stored again."""
        time.sleep(_LATE_S)
        targets = self._outputs.new_files(b"")
        try:
            self._exchanges.store_again(outcome.record.number, targets)
            taken = Taken(headers=[outputs.read_header(target) for target in targets], files=targets)
            compared = self._outputs.compare(draw, taken, key=bytes(KEY_BYTES), poison=None)
        except outputs.HeaderError:
            return False
        finally:
            outputs.close_all(targets)
        return all(item.verdict is None for item in compared.checks)

    def _replayed(self, draw: Draw, first: RankCheck) -> list[Finding]:
        """Call again on inputs with a wrong output: a correct one now means that chance decides."""
        again = [self._again(draw) for _ in range(_REPLAYS)]
        right = sum(outcome.is_right for outcome in again)
        if not right:
            return []
        message = (
            f"rank {first.rank}: wrong at first, and correct in {right} of {_REPLAYS} repetitions on the same inputs"
        )
        return [self._checks.finding(Verdict.NONDETERMINISTIC, message, rank=first.rank, output=first.output)]
