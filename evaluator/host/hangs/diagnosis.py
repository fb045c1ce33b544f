"""From incidents to findings: who caused the end of a worker group, in words for the author. Pure functions."""

import os
import re
from collections.abc import Sequence

import msgspec

from evaluator.arena.protocol import CHANNEL_LOST, SHIM_FAILED, Failure
from evaluator.contract import Collective, Finding, RankState, Verdict
from evaluator.host.hangs import flight_recorder
from evaluator.host.hangs.incidents import Incident, IncidentKind, Observation, Standing, WorkerGroupFailure

_SAME_MOMENT_S = 0.25
"""A peer's error this soon before a rank's death was noticed may be its consequence: sockets close before statuses
arrive."""

CALL = "call "
"""How `WorkerGroupFailure.doing` begins while the submission's own code runs."""

_MEMORY_WORDS = ("can't allocate memory", "not enough memory", "out of memory", "cannot allocate memory")
_FAULT_WORDS = (
    "illegal memory access",
    "misaligned address",
    "unspecified launch failure",
    "device-side assert",
    "illegal instruction",
)
_IN_RENDEZVOUS = "waits in rendezvous "
_IN_ONE_ORDER = (
    ". torch numbers the rendezvous of a process across all its groups, so every rank has to make them "
    "in the same order"
)
"""Why ranks wait for each other in the same line: PyTorch's issue 196082. Symmetric memory is made by a rendezvous."""

_NO_HANDLE = re.compile(r"'NoneType' object has no attribute '(buffer_ptrs|signal_pad_ptrs|barrier|get_buffer)")
_OF_NOTHING = "; torch's rendezvous gives no handle for a tensor without elements"
_ITS = re.compile(r"\bits\b")
_HEADLINE = re.compile(r"^[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit|Iteration|Group)\b.*", re.MULTILINE)
_ANNOUNCED_CHARACTERS = 400
_FAILURES = {
    Failure.START: Verdict.JUDGE_ERROR,  # no channel takes it once a submission is there
    Failure.IMPORT: Verdict.IMPORT_ERROR,
    Failure.ENTRY: Verdict.IMPORT_ERROR,
    Failure.RAISED: Verdict.RUNTIME_ERROR,
    Failure.OUT_OF_MEMORY: Verdict.OUT_OF_MEMORY,
}


def findings_of(failure: WorkerGroupFailure, *, size: str | None) -> tuple[Finding, ...]:
    """Findings from the incidents, the cause first. The ranks' states show consequences for other ranks."""
    cause = _cause(failure.incidents)
    if cause.kind is IncidentKind.MEMORY:
        who = "the sandbox" if cause.rank is None else f"rank {cause.rank}"
        message = f"the kernel ended {who} during {failure.doing}: it had no memory left ({cause.text})"
        return (Finding(verdict=Verdict.OUT_OF_MEMORY, message=message, rank=cause.rank, size=size),)
    if cause.kind is IncidentKind.SANDBOX_ENDED:
        message = "the sandbox ended while its ranks were still running"
        return (Finding(verdict=Verdict.JUDGE_ERROR, message=message, size=size),)
    if cause.kind is IncidentKind.VIOLATION:
        message = f"rank {cause.rank} interfered with the judge's channel during {failure.doing}"
        return (Finding(verdict=Verdict.TAMPERED, message=message, rank=cause.rank, size=size),)
    if cause.kind is IncidentKind.FAILED:
        return (_failed(cause, failure, size),)
    if cause.kind in (IncidentKind.OVERDUE, IncidentKind.STALLED):
        return (_overdue(failure, size),)
    return (_ended(cause, failure, size),)


def rank_states(observations: Sequence[Observation]) -> tuple[RankState, ...]:
    """The observations in the form of the report."""
    return tuple(
        RankState(
            rank=seen.rank,
            exit=seen.exit,
            phase=seen.location,
            calls_done=seen.calls_done,
            error=seen.error,
            stack=seen.stack,
            log=seen.log,
            log_lacks=seen.log_lacks,
            collectives=seen.collectives,
            file=seen.place.file if seen.place is not None else None,
            line=seen.place.line if seen.place is not None else None,
            is_waiting=seen.is_waiting,
        )
        for seen in observations
    )


def _cause(incidents: Sequence[Incident]) -> Incident:
    """The incident that explains the others."""
    for kind in (IncidentKind.MEMORY, IncidentKind.SANDBOX_ENDED, IncidentKind.VIOLATION):
        for incident in incidents:
            if incident.kind is kind:
                return incident
    first, ends = incidents[0], [each for each in incidents if each.kind in (IncidentKind.EXITED, IncidentKind.CLOSED)]
    if first.kind is IncidentKind.FAILED and first.failure is Failure.RAISED:
        first = _end_of_another(first, ends) or first
    # The exit, with its status, of a rank that closed its channel.
    exits = (end for end in ends if end.kind is IncidentKind.EXITED and end.rank == first.rank)
    return next(exits, first) if first.kind is IncidentKind.CLOSED else first


def _end_of_another(raised: Incident, ends: Sequence[Incident]) -> Incident | None:
    """The end of another rank: collectives of its peers raise, sometimes before the host notices that end."""
    soon = (end for end in ends if end.at - raised.at < _SAME_MOMENT_S)
    return next((end for end in soon if end.rank != raised.rank), None)


def _failed(cause: Incident, failure: WorkerGroupFailure, size: str | None) -> Finding:
    verdict = _FAILURES[cause.failure or Failure.RAISED]
    if verdict is Verdict.RUNTIME_ERROR:
        verdict = _more_exactly(cause.text)
    headline = _headline(cause.text)
    if _NO_HANDLE.search(headline):
        headline += _OF_NOTHING
    message = f"rank {cause.rank} in {failure.doing}: {headline}" + _others(cause.rank, failure)
    found = Finding(verdict=verdict, message=message, rank=cause.rank, size=size)
    return _placed(found, _observed(cause.rank, failure))


def _more_exactly(text: str) -> Verdict:
    """The verdict of an exception by its text: out of memory, a device fault, or any other error."""
    lowered = text.lower()
    if any(word in lowered for word in _FAULT_WORDS):
        return Verdict.CRASHED
    return Verdict.OUT_OF_MEMORY if any(word in lowered for word in _MEMORY_WORDS) else Verdict.RUNTIME_ERROR


def _headline(text: str) -> str:
    """The line of a traceback that names the exception; further lines of its message only where it announces them.

    An extension that was called with other types announces those that it takes.
    """
    found = list(_HEADLINE.finditer(text))
    if found:
        line = found[-1].group().rstrip()
        announced = " ".join(text[found[-1].end() :].split("\n\n", maxsplit=1)[0].split())
        return f"{line} {announced[:_ANNOUNCED_CHARACTERS]}" if line.endswith(":") and announced else line
    return text.strip().splitlines()[-1] if text.strip() else "no message"


def _ended(cause: Incident, failure: WorkerGroupFailure, size: str | None) -> Finding:
    status = cause.status
    if status is not None and os.waitstatus_to_exitcode(status) == SHIM_FAILED:
        return _shim_failed(cause, failure, size)
    if status is None or os.waitstatus_to_exitcode(status) == CHANNEL_LOST:
        verdict, how = Verdict.EARLY_EXIT, "closed its channel"
    elif os.WIFSIGNALED(status):
        verdict = Verdict.CRASHED
        how = f"was ended by {_observed(cause.rank, failure).exit}"
    else:
        code = os.waitstatus_to_exitcode(status)
        verdict = Verdict.EARLY_EXIT if code == 0 else Verdict.CRASHED
        how = f"exited with code {code}"
    message = f"rank {cause.rank} {how} during {failure.doing}" + _others(cause.rank, failure)
    return Finding(verdict=verdict, message=message, rank=cause.rank, size=size)


def _shim_failed(cause: Incident, failure: WorkerGroupFailure, size: str | None) -> Finding:
    """The shim raised an exception, or something exited with the shim's exit code; nobody can distinguish them.

    After a call the cause is what was returned. Before one it is what the submission did to the process, such as memory
    that it holds.
    """
    headline = _headline(_observed(cause.rank, failure).log)
    if failure.doing.startswith(CALL):
        verdict, what = Verdict.RUNTIME_ERROR, "the judge could not take what the solution returned"
    else:
        verdict = _more_exactly(headline)
        what = "the rank could not go on in the submission's process"
    message = f"rank {cause.rank} in {failure.doing}: {what}: {headline}"
    return Finding(verdict=verdict, message=message, rank=cause.rank, size=size)


def _overdue(failure: WorkerGroupFailure, size: str | None) -> Finding:
    """Deadlock where every late rank waits for another one; timeout where a rank still works."""
    late = [seen for seen in failure.observations if seen.standing is not Standing.FINISHED]
    # A rank that works itself explains the others sooner than one whose threads may act while it waits.
    working = [seen for seen in late if seen.standing in (Standing.WORKING, Standing.SLEEPING)]
    working += [seen for seen in late if seen.standing is Standing.BESIDE_THREADS]
    stood_still = any(incident.kind is IncidentKind.STALLED for incident in failure.incidents)
    if stood_still:  # Two looks have shown that all wait. A busy machine answers the last one late or in part.
        working = []
    all_on_device = all(seen.standing is Standing.ON_DEVICE for seen in failure.observations)
    is_slow = working or (all_on_device and not _are_apart(failure.observations))
    verdict = Verdict.TIMEOUT if is_slow else Verdict.DEADLOCK
    named = (working or late)[0]
    locations = _locations(failure.observations)
    what = (
        f"hung, and no rank was running after {failure.limit_s:.3g} s"
        if stood_still
        else (f"took longer than {failure.limit_s:.3g} s")
    )
    message = f"{failure.doing} {what}: {locations}"
    if verdict is Verdict.DEADLOCK and all(seen.location.startswith(_IN_RENDEZVOUS) for seen in failure.observations):
        message += _IN_ONE_ORDER
    found = Finding(verdict=verdict, message=message, rank=named.rank, size=size)
    return found if verdict is Verdict.DEADLOCK else _placed(found, named)


def _placed(finding: Finding, seen: Observation) -> Finding:
    """The finding with the line at which its rank was. A deadlock has none: no rank alone is its cause."""
    if seen.place is None:
        return finding
    return msgspec.structs.replace(finding, file=seen.place.file, line=seen.place.line)


def _are_apart(observations: Sequence[Observation]) -> bool:
    """Whether ranks of a group wait in different collectives of it."""
    waiting: dict[tuple[int, ...], list[list[Collective]]] = {}
    for seen in observations:
        if (oldest := flight_recorder.pending(seen.collectives)) is not None:
            ones = [one for one in seen.collectives if not one.is_done and one.ranks == oldest.ranks]
            waiting.setdefault(oldest.ranks, []).append(ones)
    return any(map(flight_recorder.are_apart, waiting.values()))


def _locations(observations: Sequence[Observation]) -> str:
    """Where every rank is; ranks in the same location together."""
    together: dict[str, list[int]] = {}
    for seen in observations:
        together.setdefault(seen.location, []).append(seen.rank)
    return "; ".join(
        f"rank {ranks[0]} {location}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))} {_plural(location)}"
        for location, ranks in together.items()
    )


def _plural(location: str) -> str:
    verb, _, rest = location.partition(" ")
    return f"{verb.removesuffix('s')} {_ITS.sub('their', rest)}"


def _observed(rank: int | None, failure: WorkerGroupFailure) -> Observation:
    return next(seen for seen in failure.observations if seen.rank == rank)


def _others(rank: int | None, failure: WorkerGroupFailure) -> str:
    """Where the other ranks were, as an addition to a message."""
    others = [seen for seen in failure.observations if seen.rank != rank]
    return f" ({_locations(others)})" if others else ""
