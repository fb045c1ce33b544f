"""Joins two reports: at a profile's world size, and at another that the same machine has."""

import msgspec

from evaluator.contract import EvaluationReport, StageTime, Verdict


def combined(first: EvaluationReport, second: EvaluationReport) -> EvaluationReport:
    """The report on `first`, which passed, where `second` judged the same source on another number of ranks.

    A finding of the second becomes the verdict. A failure of the judge there becomes a note.
    """
    if second.verdict is Verdict.JUDGE_FAILURE:
        return unseen(first, world_size=second.world_size, why=second.message)
    together = msgspec.structs.replace(
        first, stages=_added(first.stages, second.stages), world_sizes=(first.world_size, second.world_size)
    )
    if second.verdict is Verdict.PASSED:
        message = f"{first.message}; correct on {second.world_size} ranks too"
        passed = tuple(
            msgspec.structs.replace(found, message=message) if found.verdict is Verdict.PASSED else found
            for found in first.findings
        )
        return msgspec.structs.replace(together, message=message, findings=passed)
    where = f"on {second.world_size} ranks, after it was correct on {first.world_size}: "
    against = tuple(msgspec.structs.replace(found, message=where + found.message) for found in second.findings)
    return msgspec.structs.replace(
        together,
        verdict=second.verdict,
        message=where + second.message,
        findings=against,
        sizes=second.sizes,
        timing=None,
        ranks=second.ranks,
        notes=second.notes,
        world_sizes=(first.world_size,),
    )


def unseen(first: EvaluationReport, *, world_size: int, why: str) -> EvaluationReport:
    """The report `first`, with a note that the submission was not judged on `world_size` ranks."""
    note = f"it could not be judged on {world_size} ranks as well: {why}"
    return msgspec.structs.replace(first, notes=(*first.notes, note))


def _added(first: tuple[StageTime, ...], second: tuple[StageTime, ...]) -> tuple[StageTime, ...]:
    """The seconds of both, stage by stage in the order of `first`."""
    more = {item.stage: item.seconds for item in second}
    return tuple(msgspec.structs.replace(item, seconds=item.seconds + more.get(item.stage, 0.0)) for item in first)
