"""Inputs that differ in a few elements, fingerprints, poison, and the indices of special calls."""

import dataclasses
from itertools import islice

import torch

from evaluator.arena.fingerprint import fingerprint
from evaluator.arena.structure import Packer
from evaluator.contract import CallKind
from evaluator.host.measure import outputs
from evaluator.host.measure.schedule import Phases, check_kinds, phases, timed_calls
from evaluator.judging.checks import Check
from evaluator.oracle import traces
from evaluator.oracle.call_memory import layout_of
from evaluator.oracle.near_call import NearCall
from problems.inputs.values import Call
from tests.evaluator.conftest import SETTINGS
from tests.evaluator.judging_help import job_for

KNOWN = {
    "key": b"k" * 32,
    "rank": 0,
    "world_size": 2,
    "dims": {"M": 64, "N": 80},
    "dtype": torch.bfloat16,
    "device": torch.device("cpu"),
}
BASE = Call(index=3, **KNOWN)
NEAR = NearCall(index=9, base=3, **KNOWN)


def test_near_inputs_are_the_bases_but_for_a_few_elements_on_every_rank():
    for draw in (
        lambda call: call.normal("x", ("M", "N")),
        lambda call: call.long_tailed("x", ("M", "N")),
        lambda call: call.uniform("x", ("M", "N"), shared=True),
        lambda call: call.integers("x", ("M", "N"), low=0, high=1000),
        lambda call: call.normal("x", ("M", "N"), dtype=torch.float8_e4m3fn),
    ):
        for rank in (0, 1):
            near, base = draw(NEAR.at_rank(rank)), draw(BASE.at_rank(rank))
            assert 1 <= int((near.float() != base.float()).sum()) <= 8
            assert torch.equal(near.float(), draw(NEAR.at_rank(rank)).float())
    shared = [NEAR.at_rank(rank).uniform("x", ("M", "N"), shared=True) for rank in (0, 1)]
    assert torch.equal(*shared)


def test_in_about_half_of_the_near_calls_elements_change_places_so_that_sums_stay():
    base = BASE.normal("x", ("M", "N")).double().sum()
    sums = [NearCall(index=index, base=3, **KNOWN).normal("x", ("M", "N")).double().sum() for index in range(10, 50)]
    assert 10 <= sum(bool(each == base) for each in sums) <= 30


def test_factors_lengths_and_permutations_stay_as_they_were():
    assert torch.equal(NEAR.uniform("scale", (1, 1)), BASE.uniform("scale", (1, 1)))
    assert torch.equal(NEAR.permutation("order", 50), BASE.permutation("order", 50))


def layout(**arguments):
    packer = Packer()
    return layout_of([[name, packer.pack(value)] for name, value in arguments.items()])


def test_a_layout_tells_shapes_dtypes_and_flags_apart_and_no_values():
    usual = layout(x=torch.zeros(4, 6), src=0, scale=0.5, causal=True)
    assert layout(x=torch.ones(4, 6), src=0, scale=0.25, causal=True) == usual
    others = (
        layout(x=torch.zeros(6, 4), src=0, scale=0.5, causal=True),
        layout(x=torch.zeros(4, 6, dtype=torch.bfloat16), src=0, scale=0.5, causal=True),
        layout(x=torch.zeros(4, 6), src=1, scale=0.5, causal=True),
        layout(x=torch.zeros(4, 6), src=0, scale=None, causal=True),
        layout(x=torch.zeros(4, 6), src=0, scale=0.5, causal=False),
    )
    assert len({usual, *others}) == 6


def test_fingerprint_sees_a_changed_bit_and_an_exchange_of_outputs_but_no_strides():
    left, right = torch.randn(8, 12), torch.arange(96).view(8, 12)
    whole = fingerprint([left, right])
    assert fingerprint([left.t().contiguous().t(), right]) == whole
    assert fingerprint([right, left]) != whole
    changed = left.clone()
    changed.view(torch.int32)[3, 4] ^= 1
    assert fingerprint([changed, right]) != whole
    assert fingerprint(["no tensor", None]) == 0


def test_poison_is_nan_in_every_format_and_its_share_is_reported():
    poison = outputs.new_poison()
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert torch.frombuffer(bytearray(poison), dtype=dtype).isnan().all()
    area = torch.zeros(outputs.OUTPUT_HEADER_BYTES + 1024, dtype=torch.uint8)
    number = int.from_bytes(poison, "little")
    traces.fill(area, number)
    area[outputs.OUTPUT_HEADER_BYTES : outputs.OUTPUT_HEADER_BYTES + 256] = 1
    header = [{"dtype": "float32", "shape": [16, 16], "device": "cpu", "start": outputs.OUTPUT_HEADER_BYTES}]
    assert traces.unwritten_shares(header, area, number) == [0.75]


def test_special_calls_lie_at_other_indices_every_time_and_never_first():
    kinds = [check_kinds(SETTINGS.check_calls, job=job_for(SETTINGS)) for _ in range(40)]
    assert all(each[0] is CallKind.PLAIN for each in kinds)
    assert all(sorted(each) == sorted(kinds[0]) for each in kinds)
    assert kinds[0].count(CallKind.SKEWED) == 4, "so that every rank is late twice"
    assert len({tuple(each) for each in kinds}) > 3
    short = check_kinds(SETTINGS.check_calls, job=job_for(dataclasses.replace(SETTINGS, is_short=True)))
    assert short.count(CallKind.SKEWED) == 2, "and once in a short check"


def specials(*, blocks: int, block_calls: int) -> dict[int, CallKind]:
    """Where special calls lie in the first blocks of a series, and which."""
    series = timed_calls(block_calls=block_calls, checks=8, job=job_for(SETTINGS))
    planned = enumerate(islice(series, blocks * block_calls))
    return {index: call.special for index, call in planned if call.special is not None}


def test_special_calls_lie_between_timed_ones_at_secret_indices():
    plans = [specials(blocks=12, block_calls=6) for _ in range(40)]
    assert all(len(plan) == 8 and set(plan.values()) == {CallKind.SKEWED, CallKind.NEAR} for plan in plans)
    assert not any(index % 6 == 0 for plan in plans for index in plan), "none comes before a block's first call"
    assert len({tuple(plan) for plan in plans}) == 40
    assert len({index // 6 for index in plans[0]}) == 8, "no block has two"


def test_blocks_of_one_call_have_special_calls_too():
    assert len(specials(blocks=12, block_calls=1)) == 8


def test_a_series_of_any_length_goes_on_having_special_and_checked_calls():
    calls = list(islice(timed_calls(block_calls=6, checks=8, job=job_for(SETTINGS)), 3 * 72))
    parts = [calls[start : start + 72] for start in range(0, len(calls), 72)]
    assert [sum(call.is_checked for call in part) for part in parts] == [8, 8, 8]
    assert [sum(call.special is not None for call in part) for part in parts] == [8, 8, 8]
    assert parts[0] != parts[1]


def test_more_checks_than_calls_check_every_call():
    assert all(call.is_checked for call in islice(timed_calls(block_calls=2, checks=999, job=job_for(SETTINGS)), 24))


def test_nothing_is_checked_or_special_between_timed_calls_where_that_is_switched_off():
    off = job_for(dataclasses.replace(SETTINGS, without=frozenset({Check.TIMED_CALLS})))
    planned = list(islice(timed_calls(block_calls=6, checks=8, job=off), 72))
    assert not any(call.is_checked or call.special for call in planned)


def a_phases(reference_s: float, turn_s: float, candidate_s: float, *, budget_s: float = 6.0) -> Phases:
    return phases(reference_s, turn_s, candidate_s, budget_s=budget_s, settings=SETTINGS)


def test_legs_are_as_long_as_reference_time_and_bounds_allow():
    assert a_phases(0.002, 0.002, 0.002) == Phases(reference=10, candidate=20)
    assert a_phases(10e-6, 0.001, 10e-6).reference == SETTINGS.max_phase_calls
    assert a_phases(0.05, 0.05, 0.05) == Phases(
        reference=SETTINGS.min_phase_calls, candidate=2 * SETTINGS.min_phase_calls
    )


def test_twelve_blocks_of_legs_fit_into_the_budget():
    for call_s, overhead_s in ((100e-6, 2e-3), (1e-3, 10e-3), (5e-3, 1e-3)):
        found = a_phases(call_s, call_s + overhead_s, call_s)
        turn_s = call_s + overhead_s
        assert (
            12 * turn_s * (2 * found.reference + found.candidate) <= 6.0 or found.reference == SETTINGS.min_phase_calls
        )


def test_a_submission_that_is_a_little_slower_has_as_many_calls_as_the_reference():
    assert a_phases(1e-3, 0.02, 0.02).candidate == 2 * a_phases(1e-3, 0.02, 0.02).reference
    assert a_phases(1e-3, 0.02, 0.2).candidate < 2 * a_phases(1e-3, 0.02, 0.2).reference


def test_a_slow_submission_gets_fewer_calls_and_never_none():
    assert a_phases(1e-3, 1e-3, 0.05) == Phases(reference=20, candidate=5)
    assert a_phases(1e-3, 1e-3, 10.0).candidate == 1
    assert a_phases(1e-3, 1e-3, 0.0).candidate == 40, "and an immediate one no more than the reference"
