"""What every verdict means, who is responsible, and which verdict decides when the evidence supports several."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from evaluator.contract import Finding, Verdict


class Fault(StrEnum):
    """Who is responsible for a verdict."""

    NOBODY = "nobody"
    AUTHOR = "author"
    JUDGE = "judge or node"
    OPEN = "open until a person decides"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the site says about a verdict, and what follows from it.

    Attributes:
        explanation: what happened, for a kernel author.
        advice: what to try next.
        is_charged: whether the GPU time counts against the author's quota.
        is_retried: whether the site queues the evaluation again without being asked.
    """

    title: str
    explanation: str
    advice: str
    fault: Fault = Fault.AUTHOR
    is_charged: bool = True
    is_retried: bool = False


FACTS: dict[Verdict, Facts] = {
    Verdict.PASSED: Facts(
        title="Passed",
        explanation="Every compared output was correct on every rank.",
        advice="Compare your time with the floor: the difference is your distance to the roofline.",
        fault=Fault.NOBODY,
    ),
    Verdict.WRONG_RESULT: Facts(
        title="Wrong result",
        explanation="Values differ from the expected output by more than the tolerance.",
        advice="Begin with what the output is instead, where the finding says it. Otherwise look at the rank and the "
        "index of the first wrong element. A wrong shard points to partitioning, small errors everywhere to precision.",
    ),
    Verdict.WRONG_SHAPE: Facts(
        title="Wrong shape",
        explanation="The returned structure, shape, dtype, device or layout is not the expected one.",
        advice="Compare expected and received per rank. A sharded output holds only the part of its rank.",
    ),
    Verdict.NOT_FINITE: Facts(
        title="Not finite",
        explanation="The output holds NaN or infinity where the expected output is finite.",
        advice="Check for uninitialised memory, overflow in reduced precision and divisions by an empty sum.",
    ),
    Verdict.INPUT_MUTATED: Facts(
        title="Input changed",
        explanation="The call changed an input that the problem does not declare mutable.",
        advice="Work on a copy or in your own buffer. In-place collectives overwrite their argument.",
    ),
    Verdict.NONDETERMINISTIC: Facts(
        title="Not deterministic",
        explanation="The same inputs gave a correct output once and a wrong output another time.",
        advice="Look for a race: a peer's buffer read before it is written, or reused before every rank has read it. "
        "Or for a cache keyed by an address.",
    ),
    Verdict.COMPILE_ERROR: Facts(
        title="Compile error",
        explanation="The compiler rejected the source.",
        advice="The compiler's messages are shown in full below.",
        is_charged=False,
    ),
    Verdict.IMPORT_ERROR: Facts(
        title="Import error",
        explanation="solution.py could not be imported, or has no solution function with the problem's parameters.",
        advice="Compare the signature with the problem page, and import only what the node provides.",
    ),
    Verdict.RUNTIME_ERROR: Facts(
        title="Runtime error",
        explanation="The solution raised an exception.",
        advice="The report shows the traceback of the first rank that failed, and where the other ranks were.",
    ),
    Verdict.CRASHED: Facts(
        title="Crashed",
        explanation="A signal or an illegal memory access ended a rank.",
        advice="Check the bounds of peer pointers, and the lifetime of buffers that other ranks still read.",
    ),
    Verdict.OUT_OF_MEMORY: Facts(
        title="Out of memory",
        explanation="A rank asked for more memory than its limit.",
        advice="Allocate workspaces once and keep them. Exchange large data in chunks.",
    ),
    Verdict.DEADLOCK: Facts(
        title="Deadlock",
        explanation="Ranks waited for each other, and none could go on.",
        advice="Compare where each rank waits. All ranks must reach the same collectives and flags in the same order.",
    ),
    Verdict.TIMEOUT: Facts(
        title="Timeout",
        explanation="The deadline passed while the solution was still running.",
        advice="The limit is a multiple of the reference's time. Look for endless loops and for work on the host.",
    ),
    Verdict.EARLY_EXIT: Facts(
        title="Early exit",
        explanation="A rank exited or closed its channel to the judge before it had answered every call.",
        advice="Do not call exit, and do not close file descriptors that are not yours.",
    ),
    Verdict.LIMIT_EXCEEDED: Facts(
        title="Limit exceeded",
        explanation="The submission, its build, its processes, its files or its output exceeded a limit.",
        advice="The message names the limit and the value.",
    ),
    Verdict.FORBIDDEN: Facts(
        title="Forbidden",
        explanation="The submission breaks a written rule of the problem or of the site.",
        advice="Library collectives may set things up. Only backend pytorch may move the problem's data with them.",
    ),
    Verdict.STALE_OUTPUT: Facts(
        title="Stale output",
        explanation="The output belongs to the inputs of another call.",
        advice="Compute every output from the inputs of its call. Cache nothing by address or shape.",
    ),
    Verdict.INCOMPLETE_OUTPUT: Facts(
        title="Incomplete output",
        explanation="The output still changed after the call had ended, or parts of it were never written.",
        advice="Make the current stream wait for your other streams, and wait for peers that write to your buffer.",
    ),
    Verdict.TIMING_INCONSISTENT: Facts(
        title="Timing inconsistent",
        explanation="The times contradict those of empty calls, or the submission used processors while the "
        "reference was timed.",
        advice="Start work when a call's inputs have arrived, and end it with its outputs. Between calls, only wait.",
    ),
    Verdict.BELOW_FLOOR: Facts(
        title="Below the floor",
        explanation="The time is shorter than our cost model allows on this hardware. It does not count until a person "
        "has reviewed it.",
        advice="If you believe that the cost model is wrong, write to us: we check that first.",
        fault=Fault.OPEN,
        is_charged=False,
    ),
    Verdict.TRAFFIC_BELOW_MINIMUM: Facts(
        title="Too little traffic",
        explanation="Fewer bytes crossed the links than the problem needs.",
        advice="Inputs are new in every call and on every rank, so data of peers has to be moved each time.",
    ),
    Verdict.TAMPERED: Facts(
        title="Tampered",
        explanation="There is evidence that the submission interfered with the judge.",
        advice="If this is a mistake, appeal. The evidence is kept and a person will look at it.",
    ),
    Verdict.UNSUPPORTED: Facts(
        title="Unsupported",
        explanation="The submission needs something that this profile does not have or does not allow.",
        advice="Choose a profile that has it.",
        fault=Fault.NOBODY,
        is_charged=False,
    ),
    Verdict.BASELINE_UNSTABLE: Facts(
        title="Baseline unstable",
        explanation="Heat or a power limit slowed a GPU before the submission ran. It was not run.",
        advice="Nothing to do: the site has it judged again, at no cost to you.",
        fault=Fault.NOBODY,
        is_charged=False,
        is_retried=True,
    ),
    Verdict.JUDGE_ERROR: Facts(
        title="Judge error with this submission",
        explanation="The judge had an internal error while it handled this submission. Its node works.",
        advice="Ask the operator, who has the log and can have it judged again and refund the GPU time.",
        fault=Fault.OPEN,
    ),
    Verdict.JUDGE_FAILURE: Facts(
        title="Judge failure",
        explanation="The judge or its node failed. The submission did not cause it.",
        advice="Nothing to do: the site has it judged again, at no cost to you.",
        fault=Fault.JUDGE,
        is_charged=False,
        is_retried=True,
    ),
}

BEFORE_RANKS = (
    Verdict.JUDGE_FAILURE,
    Verdict.LIMIT_EXCEEDED,
    Verdict.FORBIDDEN,
    Verdict.UNSUPPORTED,
    Verdict.COMPILE_ERROR,
    Verdict.IMPORT_ERROR,
)
"""Precedence of findings from before the ranks start; the first match decides."""

_EXECUTION = frozenset(
    {
        Verdict.IMPORT_ERROR,
        Verdict.LIMIT_EXCEEDED,
        Verdict.OUT_OF_MEMORY,
        Verdict.CRASHED,
        Verdict.RUNTIME_ERROR,
        Verdict.EARLY_EXIT,
        Verdict.DEADLOCK,
        Verdict.TIMEOUT,
    }
)
"""Among these the earliest finding decides, so callers list findings in the order of time."""

_STEPS: tuple[frozenset[Verdict], ...] = (
    frozenset({Verdict.JUDGE_FAILURE}),
    frozenset({Verdict.JUDGE_ERROR}),
    frozenset({Verdict.TAMPERED}),
    frozenset({Verdict.FORBIDDEN}),
    frozenset({Verdict.UNSUPPORTED}),
    frozenset({Verdict.COMPILE_ERROR}),
    _EXECUTION,
    frozenset({Verdict.WRONG_SHAPE}),
    frozenset({Verdict.INCOMPLETE_OUTPUT}),
    frozenset({Verdict.STALE_OUTPUT}),
    frozenset({Verdict.INPUT_MUTATED}),
    frozenset({Verdict.NONDETERMINISTIC}),
    frozenset({Verdict.NOT_FINITE}),
    frozenset({Verdict.WRONG_RESULT}),
    frozenset({Verdict.TIMING_INCONSISTENT}),
    frozenset({Verdict.BELOW_FLOOR}),
    frozenset({Verdict.TRAFFIC_BELOW_MINIMUM}),
    frozenset({Verdict.BASELINE_UNSTABLE}),
    frozenset({Verdict.PASSED}),
)


def decide(findings: Sequence[Finding]) -> Finding:
    """The finding that decides the verdict, by precedence; among equals the earlier one.

    Args:
        findings: everything that the evidence supports, in the order of time. A pass is a finding too. It decides
            only where there is no other finding: missing evidence never passes.

    Raises:
        ValueError: there is no finding, so nothing has been shown.
    """
    for step in _STEPS:
        for finding in findings:
            if finding.verdict in step:
                return finding
    raise ValueError("no verdict without a finding: a pass needs evidence too")


def decide_before_ranks(findings: Sequence[Finding]) -> Finding | None:
    """The finding that ends an evaluation before its ranks start, or None where they may start."""
    known = [finding for finding in findings if finding.verdict in BEFORE_RANKS]
    return min(known, key=lambda finding: BEFORE_RANKS.index(finding.verdict), default=None)
