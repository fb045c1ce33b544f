"""Checks after a call, from what ranks, host and oracle report of it."""

import dataclasses

import pytest

from evaluator.arena.protocol import Report, ReportKind
from evaluator.contract import Backend, Finding, Mode, Verdict
from evaluator.hardware import profiles
from evaluator.host.clock.call_clock import CallTime
from evaluator.host.measure.call_checks import CallChecks, CallPolicy, Exchange
from evaluator.host.process.deadlines import Deadlines
from evaluator.host.ranks.oracle_group import Comparison, PreparedInputs, Traces
from evaluator.judging.checks import Check
from tests.evaluator.conftest import SETTINGS

MARKS = ("aa", "bb")
INPUTS = [PreparedInputs(file=-1, areas=(), areas_number=-1, tensors=("x", "weight"), size=8) for _ in range(2)]


def checks(
    *,
    backend: Backend = Backend.CUDA,
    mode: Mode = Mode.RANKED,
    warned: list[Finding] | None = None,
    off: Check | None = None,
) -> CallChecks:
    policy = CallPolicy(
        timing_policy=profiles.get("cpux2").timing_policy,
        settings=dataclasses.replace(SETTINGS, without=frozenset({off} if off else ())),
        backend=backend,
        mode=mode,
        deadlines=Deadlines(0.0),
        cancelled=lambda: False,
    )
    return CallChecks(policy, size="tiny", warn=(warned if warned is not None else []).append)


def exchange(*, details: tuple[int, int] = (-1, -1), moved: tuple[int, int] = (0, 0)) -> Exchange:
    """Call 5 of two ranks, which both report that it took no time."""
    reports = [
        Report(kind=ReportKind.DONE, call=5, detail=detail, moved=count)
        for detail, count in zip(details, moved, strict=True)
    ]
    time = CallTime(done_ns=(10, 20), marks=MARKS)
    return Exchange(number=5, reports=reports, time=time, is_reused=False, delays_us=(0, 0))


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
    against = checks()
    assert against.claimed(exchange(), INPUTS) == []
    assert against.altered(exchange(), traces()) == []
    assert against.changed(Comparison(checks=[], traces=traces(), digests=(), changed=(None, None))) == []


def test_outputs_that_are_not_all_stored_have_no_fingerprint_to_differ() -> None:
    assert checks().altered(exchange(), traces(marks=(None, "bb"))) == []


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
    assert verdicts_and_ranks(checks().altered(exchange(), seen)) == expected


def test_a_changed_input_is_named() -> None:
    (by_rank,) = checks().claimed(exchange(details=(-1, 1)), INPUTS)
    (by_oracle,) = checks().changed(Comparison(checks=[], traces=traces(), digests=(), changed=("x", None)))
    assert (by_rank.verdict, by_rank.rank) == (Verdict.INPUT_MUTATED, 1)
    assert "'weight'" in by_rank.message
    assert (by_oracle.verdict, by_oracle.rank) == (Verdict.INPUT_MUTATED, 0)
    assert "'x'" in by_oracle.message


def test_an_input_that_is_none_is_not_believed() -> None:
    assert checks().claimed(exchange(details=(2, 10**6)), INPUTS) == []


def test_library_collectives_are_refused_in_ranked_mode_and_warned_of_elsewhere() -> None:
    assert verdicts_and_ranks(checks().claimed(exchange(moved=(0, 3)), INPUTS)) == [(Verdict.FORBIDDEN, 1)]
    warned: list[Finding] = []
    assert checks(mode=Mode.CHECK, warned=warned).claimed(exchange(moved=(2, 3)), INPUTS) == []
    assert verdicts_and_ranks(warned) == [(Verdict.FORBIDDEN, 0), (Verdict.FORBIDDEN, 1)]
    assert checks(backend=Backend.PYTORCH).claimed(exchange(moved=(2, 3)), INPUTS) == []


def test_what_is_switched_off_is_not_held_against_anybody() -> None:
    changed = Comparison(checks=[], traces=traces(), digests=(), changed=("x", None))
    assert checks(off=Check.INPUTS).claimed(exchange(details=(0, 0)), INPUTS) == []
    assert checks(off=Check.INPUTS).changed(changed) == []
    assert checks(off=Check.COLLECTIVES).claimed(exchange(moved=(1, 1)), INPUTS) == []
