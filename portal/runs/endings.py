"""What a program ended as, in the seven classes of the published benchmark.

The publication gives the classes and no rule. The rule here is ours. It goes by the verdict, and for what was raised by
the exception and its words.
"""

import re

from evaluator.contract import Verdict

CORRECT = "Correct"
MISMATCH = "Output mismatch"
SHAPE = "Tensor shape error"
SYNTAX = "nvcc/syntax errors"
TYPO = "Attribute / name / API typo"
RUNTIME = "Runtime error"
DEADLOCK = "Deadlock"
REFUSED = "Refused here (no published class)"
NOT_MEASURED = "Not measured"

_BY_VERDICT = {
    Verdict.PASSED: CORRECT,
    Verdict.WRONG_RESULT: MISMATCH,
    Verdict.NOT_FINITE: MISMATCH,
    Verdict.NONDETERMINISTIC: MISMATCH,
    Verdict.INPUT_MUTATED: MISMATCH,
    Verdict.STALE_OUTPUT: MISMATCH,
    Verdict.INCOMPLETE_OUTPUT: MISMATCH,
    Verdict.WRONG_SHAPE: SHAPE,
    Verdict.COMPILE_ERROR: SYNTAX,
    Verdict.CRASHED: RUNTIME,
    Verdict.OUT_OF_MEMORY: RUNTIME,
    Verdict.EARLY_EXIT: RUNTIME,
    Verdict.LIMIT_EXCEEDED: RUNTIME,
    Verdict.DEADLOCK: DEADLOCK,
    Verdict.TIMEOUT: DEADLOCK,
    Verdict.FORBIDDEN: REFUSED,
    Verdict.TAMPERED: REFUSED,
    Verdict.TIMING_INCONSISTENT: REFUSED,
    Verdict.BELOW_FLOOR: REFUSED,
    Verdict.TRAFFIC_BELOW_MINIMUM: REFUSED,
}
_RAISED = (
    (SYNTAX, re.compile(r"\b(Syntax|Indentation|Tab)Error\b")),
    (
        TYPO,
        re.compile(
            r"\b(Attribute|Name|UnboundLocal|Import|ModuleNotFound)Error\b"
            r"|TypeError: .*(incompatible function arguments|unexpected keyword|positional argument)"
        ),
    ),
    (
        SHAPE,
        re.compile(
            r"size of tensor|shapes? .*(cannot|invalid|mismatch|match)|invalid for input of size|split_sizes"
            r"|mismatch in shape|sizes? (do not|don't|must) match|number of dimensions|out of range .*dimension"
        ),
    ),
)
"""What an exception's words say, in the order in which they are looked for."""


def published_class(verdict: str, message: str) -> str:
    """The published class of a program that got `verdict` with `message`; empty where there is no verdict.

    What the profile or the judge could not measure has the class `NOT_MEASURED`. What only this site's rules refuse has
    `REFUSED`.
    """
    if not verdict:
        return ""
    if verdict in (Verdict.RUNTIME_ERROR, Verdict.IMPORT_ERROR):
        return next((name for name, words in _RAISED if words.search(message)), RUNTIME)
    return _BY_VERDICT.get(Verdict(verdict), NOT_MEASURED)
