"""What every verdict means, whose fault it is, and which one wins when the evidence supports several."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from evaluator.contract import Finding, Verdict


class Fault(StrEnum):
    """Who is answerable for a verdict."""

    NOBODY = "nobody"
    AUTHOR = "author"
    JUDGE = "judge or node"
    OPEN = "open until a person decides"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the site says of a verdict, and what follows from it.

    Attributes:
        explanation: what happened, for a kernel author.
        advice: what to try next.
        is_charged: whether the GPU time counts against the author's quota.
        is_retried: whether the site queues the work again by itself.
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
        explanation="Every checked call was right on every rank.",
        advice="Compare your time with the floor: what is left is the distance to the roofline.",
        fault=Fault.NOBODY,
    ),
    Verdict.WRONG_RESULT: Facts(
        title="Wrong result",
        explanation="Values differ from the exact answer by more than the tolerance.",
        advice="Look at the rank and the index of the first wrong element: a whole shard points to partitioning, "
        "scattered elements to a missing synchronisation, small errors everywhere to precision.",
    ),
    Verdict.WRONG_SHAPE: Facts(
        title="Wrong shape",
        explanation="The returned structure, shape, dtype or device is not what the problem asks for.",
        advice="Compare expected and received per rank; sharded outputs hold one rank's part only.",
    ),
    Verdict.NOT_FINITE: Facts(
        title="Not finite",
        explanation="The output holds NaN or infinity where the exact answer has none.",
        advice="Check for uninitialised memory, overflow in reduced precision and divisions by an empty sum.",
    ),
    Verdict.INPUT_MUTATED: Facts(
        title="Input changed",
        explanation="An input that the problem does not declare mutable was different after the call.",
        advice="Work on a copy or in a buffer of your own; in-place collectives overwrite their argument.",
    ),
    Verdict.NONDETERMINISTIC: Facts(
        title="Not deterministic",
        explanation="The same contents gave a right answer once and a wrong one another time.",
        advice="Look for a race: a peer's buffer read before it is written, or reused before everyone has read it.",
    ),
    Verdict.COMPILE_ERROR: Facts(
        title="Compile error",
        explanation="The compiler refused the source.",
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
        advice="The traceback of the first rank that failed is shown with the other ranks' positions.",
    ),
    Verdict.CRASHED: Facts(
        title="Crashed",
        explanation="A rank was ended by a signal or by an illegal memory access.",
        advice="Check bounds of peer pointers and the lifetime of buffers that other ranks still read.",
    ),
    Verdict.OUT_OF_MEMORY: Facts(
        title="Out of memory",
        explanation="A rank asked for more memory than it may have.",
        advice="Allocate workspaces once and keep them; stage large exchanges in chunks.",
    ),
    Verdict.DEADLOCK: Facts(
        title="Deadlock",
        explanation="The deadline passed while ranks waited for each other.",
        advice="Compare where each rank waits: all ranks must reach the same collectives and flags in the same order.",
    ),
    Verdict.TIMEOUT: Facts(
        title="Timeout",
        explanation="The deadline passed while the solution was still working.",
        advice="The limit is a multiple of the reference's time; look for loops that never end or host-side work.",
    ),
    Verdict.EARLY_EXIT: Facts(
        title="Early exit",
        explanation="A rank ended or closed its channel before it had answered every call.",
        advice="Do not call exit, and do not close file descriptors that are not yours.",
    ),
    Verdict.LIMIT_EXCEEDED: Facts(
        title="Limit exceeded",
        explanation="The submission, its build, its processes, files or output went over a limit.",
        advice="The limit and the value are named below.",
    ),
    Verdict.FORBIDDEN: Facts(
        title="Forbidden",
        explanation="The submission breaks a written rule of the problem or of the site.",
        advice="Library collectives may set things up but not move the problem's data, except in backend pytorch.",
    ),
    Verdict.STALE_OUTPUT: Facts(
        title="Stale output",
        explanation="The answer belongs to other contents than the ones it was asked for.",
        advice="Results must be computed from the inputs of the call; key nothing on addresses or shapes.",
    ),
    Verdict.INCOMPLETE_OUTPUT: Facts(
        title="Incomplete output",
        explanation="The output still changed after the call had returned, or parts of it were never written.",
        advice="Order your private streams before the current stream, and wait for peers that write to your buffer.",
    ),
    Verdict.TIMING_INCONSISTENT: Facts(
        title="Timing inconsistent",
        explanation="The times contradict what a call takes that does nothing, or the submission used processors while "
        "the reference was timed.",
        advice="Work begins when a call's inputs are there and ends with its outputs; between calls ranks only wait.",
    ),
    Verdict.BELOW_FLOOR: Facts(
        title="Below the floor",
        explanation="Faster than the hardware allows by our own cost model; held until a person has looked.",
        advice="If you believe the cost model is wrong, tell us: that is the first thing we check.",
        fault=Fault.OPEN,
        is_charged=False,
    ),
    Verdict.TRAFFIC_BELOW_MINIMUM: Facts(
        title="Too little traffic",
        explanation="Fewer bytes crossed the links than the problem needs.",
        advice="Inputs are new on every call and every rank: what peers hold has to be moved each time.",
    ),
    Verdict.TAMPERED: Facts(
        title="Tampered",
        explanation="There is evidence of interference with the judge.",
        advice="If this is a mistake, appeal: the evidence is kept and a person will look.",
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
        explanation="The answers were right, but a GPU was held back by heat or power while they were timed.",
        advice="Nothing to do: it is measured again by itself and costs you nothing.",
        fault=Fault.NOBODY,
        is_charged=False,
        is_retried=True,
    ),
    Verdict.JUDGE_ERROR: Facts(
        title="Judge error under this submission",
        explanation="Our judge met an error of its own while it handled this submission, and its node is well.",
        advice="The operator has our log, and can have it judged again and give the GPU time back: ask for it.",
        fault=Fault.OPEN,
    ),
    Verdict.JUDGE_FAILURE: Facts(
        title="Judge failure",
        explanation="Our judge or its node failed without the submission's doing.",
        advice="Nothing to do: it is judged again by itself and costs you nothing.",
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
"""Precedence of what is found before a rank is taken, first match wins."""

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
"""Among these the earliest cause decides, so callers list them in the order of time."""

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
    """The finding that gives an evaluation its verdict, by JUDGE's precedence; ties go to the earlier in the list.

    Args:
        findings: everything the evidence supports, in the order of time. A pass is a finding too, and only stands
            when there is no other: missing evidence never passes.

    Raises:
        ValueError: there is no finding at all, so nothing has been shown.
    """
    for step in _STEPS:
        for finding in findings:
            if finding.verdict in step:
                return finding
    raise ValueError("no finding, no verdict: a pass needs evidence as much as a fault does")


def decide_before_ranks(findings: Sequence[Finding]) -> Finding | None:
    """The finding that ends an evaluation before ranks are taken, or None when nothing speaks against it."""
    known = [finding for finding in findings if finding.verdict in BEFORE_RANKS]
    return min(known, key=lambda finding: BEFORE_RANKS.index(finding.verdict), default=None)
