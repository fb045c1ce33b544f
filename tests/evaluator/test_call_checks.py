"""Checks after a call, from what ranks, host and oracle report of it."""

import dataclasses

import pytest

from evaluator.arena.protocol import Report, ReportKind
from evaluator.contract import Backend, CallKind, Finding, Mode, Verdict
from evaluator.host.clock.call_clock import CallTime
from evaluator.host.job import Job
from evaluator.host.measure import checks
from evaluator.host.measure.evidence import Call, SizeEvidence
from evaluator.host.ranks.oracle_group import InputSpec, PreparedInputs, Traces
from evaluator.judging.checks import Check
from tests.evaluator.conftest import SETTINGS
from tests.evaluator.judging_help import job_for

MARKS = ("aa", "bb")
INPUTS = [PreparedInputs(file=-1, areas=(), areas_number=-1, tensors=("x", "weight"), size=8, room=8) for _ in range(2)]


def job(*, backend: Backend = Backend.CUDA, mode: Mode = Mode.RANKED, off: Check | None = None) -> Job:
    settings = dataclasses.replace(SETTINGS, without=frozenset({off} if off else ()))
    return job_for(settings, mode=mode, backend=backend)


def at_size() -> SizeEvidence:
    return SizeEvidence(size="tiny", dims={})


def made(*, details: tuple[int, int] = (-1, -1), moved: tuple[int, int] = (0, 0)) -> Call:
    """Call 5 of two ranks, which both report that it took no time."""
    reports = [
        Report(kind=ReportKind.DONE, call=5, detail=detail, moved=count)
        for detail, count in zip(details, moved, strict=True)
    ]
    return Call(
        number=5,
        spec=InputSpec(index=5),
        kind=CallKind.PLAIN,
        key=b"",
        poison=b"",
        is_reused=False,
        delays_us=(0, 0),
        inputs=INPUTS,
        reports=reports,
        time=CallTime(done_ns=(10, 20), marks=MARKS),
    )


def traces(
    *,
    marks: tuple[str | None, ...] = MARKS,
    are_sealed: tuple[bool, ...] = (False, False),
    are_late: tuple[bool, ...] = (False, False),
) -> Traces:
    return Traces(marks=marks, are_sealed=are_sealed, are_late=are_late)


def verdicts_and_ranks(findings: list[Finding]) -> list[tuple[Verdict, int | None]]:
    assert all(finding.size == "tiny" for finding in findings)
    return [(finding.verdict, finding.rank) for finding in findings]


def test_an_honest_call_meets_none() -> None:
    assert checks.claimed(job(), made(), at_size()) == []
    assert checks.altered(made(), traces(), "tiny") == []
    assert checks.changed(job(), (None, None), "tiny") == []


def test_outputs_that_are_not_all_stored_have_no_fingerprint_to_differ() -> None:
    assert checks.altered(made(), traces(marks=(None, "bb")), "tiny") == []


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (traces(marks=("aa", "cc")), [(Verdict.INCOMPLETE_OUTPUT, 1)]),
        (traces(are_late=(True, False)), [(Verdict.INCOMPLETE_OUTPUT, 0)]),
        (traces(are_sealed=(False, True)), [(Verdict.TAMPERED, 1)]),
        (
            traces(marks=("cc", "bb"), are_sealed=(True, True)),
            [(Verdict.TAMPERED, 0), (Verdict.TAMPERED, 1), (Verdict.INCOMPLETE_OUTPUT, 0)],
        ),
        # A correct fingerprint with other outputs in memory: the rank did not have the outputs yet.
        (traces(marks=(None, None), are_late=(True, True)), [(Verdict.INCOMPLETE_OUTPUT, rank) for rank in range(2)]),
    ],
)
def test_what_differed_when_the_end_was_reported(seen: Traces, expected: list[tuple[Verdict, int]]) -> None:
    assert verdicts_and_ranks(checks.altered(made(), seen, "tiny")) == expected


def test_a_changed_input_is_named() -> None:
    (by_rank,) = checks.claimed(job(), made(details=(-1, 1)), at_size())
    (by_oracle,) = checks.changed(job(), ("x", None), "tiny")
    assert (by_rank.verdict, by_rank.rank) == (Verdict.INPUT_MUTATED, 1)
    assert "'weight'" in by_rank.message
    assert (by_oracle.verdict, by_oracle.rank) == (Verdict.INPUT_MUTATED, 0)
    assert "'x'" in by_oracle.message


def test_an_input_that_is_none_is_not_believed() -> None:
    assert checks.claimed(job(), made(details=(2, 10**6)), at_size()) == []


def test_library_collectives_are_refused_in_ranked_mode_and_warned_of_elsewhere() -> None:
    assert verdicts_and_ranks(checks.claimed(job(), made(moved=(0, 3)), at_size())) == [(Verdict.FORBIDDEN, 1)]
    evidence = at_size()
    assert checks.claimed(job(mode=Mode.CHECK), made(moved=(2, 3)), evidence) == []
    # Of each rank; a second time nothing is added.
    assert checks.claimed(job(mode=Mode.CHECK), made(moved=(2, 3)), evidence) == []
    assert verdicts_and_ranks(evidence.warnings) == [(Verdict.FORBIDDEN, 0), (Verdict.FORBIDDEN, 1)]
    assert checks.claimed(job(backend=Backend.PYTORCH), made(moved=(2, 3)), at_size()) == []


def test_what_is_switched_off_is_not_held_against_anybody() -> None:
    assert checks.claimed(job(off=Check.INPUTS), made(details=(0, 0)), at_size()) == []
    assert checks.changed(job(off=Check.INPUTS), ("x", None), "tiny") == []
    assert checks.claimed(job(off=Check.COLLECTIVES), made(moved=(1, 1)), at_size()) == []
