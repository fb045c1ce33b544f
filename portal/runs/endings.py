"""What a program ended as: in failure modes of ours, or in the seven classes of the published benchmark.

The publication gives the classes and no rule. The rule here is ours. It goes by the verdict, and for what was raised by
the exception and its words.
"""

import re

from evaluator.contract import Verdict

MODES = {
    "Passed": ("success", "", "PASSED"),
    "Wrong values": ("danger", "/", "WRONG_RESULT NOT_FINITE NONDETERMINISTIC INPUT_MUTATED"),
    "Wrong shape or incomplete": ("code-function", "x", "WRONG_SHAPE INCOMPLETE_OUTPUT STALE_OUTPUT"),
    "Does not build or import": ("warning", "\\", "COMPILE_ERROR IMPORT_ERROR LIMIT_EXCEEDED"),
    "Fails while running": ("code-meta", "-", "RUNTIME_ERROR CRASHED OUT_OF_MEMORY EARLY_EXIT"),
    "Hangs": ("accent", "|", "DEADLOCK TIMEOUT"),
    "Refused by the rules": (
        "code-keyword",
        "+",
        "FORBIDDEN TAMPERED TIMING_INCONSISTENT BELOW_FLOOR TRAFFIC_BELOW_MINIMUM",
    ),
    "Unsupported or our failure": ("text-faint", ".", "UNSUPPORTED JUDGE_ERROR JUDGE_FAILURE BASELINE_UNSTABLE"),
}
"""Verdicts that readers take for one way to end, with the tone and the pattern of its bar."""

CORRECT = "Correct"
MISMATCH = "Output mismatch"
SHAPE = "Tensor shape error"
SYNTAX = "nvcc/syntax errors"
TYPO = "Attribute / name / API typo"
RUNTIME = "Runtime error"
DEADLOCK = "Deadlock"
REFUSED = "Refused by our rules alone"
NOT_MEASURED = "Not measured"

_BY_VERDICT = {
    verdict: name
    for name, verdicts in {
        CORRECT: "PASSED",
        MISMATCH: "WRONG_RESULT NOT_FINITE NONDETERMINISTIC INPUT_MUTATED STALE_OUTPUT INCOMPLETE_OUTPUT",
        SHAPE: "WRONG_SHAPE",
        SYNTAX: "COMPILE_ERROR",
        RUNTIME: "RUNTIME_ERROR IMPORT_ERROR CRASHED OUT_OF_MEMORY EARLY_EXIT LIMIT_EXCEEDED",
        DEADLOCK: "DEADLOCK TIMEOUT",
        REFUSED: "FORBIDDEN TAMPERED TIMING_INCONSISTENT BELOW_FLOOR TRAFFIC_BELOW_MINIMUM",
    }.items()
    for verdict in map(Verdict, verdicts.split())
}
_TYPO = (
    r"\b(Attribute|Name|UnboundLocal|Import|ModuleNotFound)Error\b"
    r"|TypeError: .*(incompatible function arguments|unexpected keyword|positional argument)"
)
_SHAPE = (
    r"size of tensor|shapes? .*(cannot|invalid|mismatch|match)|invalid for input of size|split_sizes"
    r"|mismatch in shape|sizes? (do not|don't|must) match|number of dimensions|out of range .*dimension"
)
_RAISED = {SYNTAX: r"\b(Syntax|Indentation|Tab)Error\b", TYPO: _TYPO, SHAPE: _SHAPE}
"""What an exception's words say, in the order in which they are looked for."""


def published_class(verdict: str, message: str) -> str:
    """The published class of a program that got `verdict` with `message`; empty where there is no verdict.

    What the profile or the judge could not measure has the class `NOT_MEASURED`. What only this site's rules refuse has
    `REFUSED`.
    """
    if not verdict:
        return ""
    if verdict in (Verdict.RUNTIME_ERROR, Verdict.IMPORT_ERROR):
        return next((name for name, words in _RAISED.items() if re.search(words, message)), RUNTIME)
    return _BY_VERDICT.get(Verdict(verdict), NOT_MEASURED)
