"""Room for the outputs of a call."""

from dataclasses import replace
from random import Random

import pytest
import torch

from evaluator.arena.protocol import OUTPUT_HEADER_BYTES
from evaluator.oracle.call_memory import room_to_grow
from evaluator.oracle.oracle_rank import Opened, expected_bytes, in_regime, usual_room
from evaluator.oracle.verify import Examiner
from problems import registry
from problems.harness.implementation import load
from problems.inputs.values import Call
from problems.spec.schema import Problem, SizeName

WORLD_SIZE = 4
CALLS = 6


def first_call(problem: Problem, size: str) -> Call:
    """The first call of rank 0 at `size`."""
    return Call(
        key=bytes(32),
        index=0,
        rank=0,
        world_size=WORLD_SIZE,
        dims=problem.dims(size, WORLD_SIZE),
        dtype=torch.bfloat16,
        device=torch.device("cpu"),
    )


@pytest.mark.parametrize("slug", [problem.slug for problem in registry.problems() if problem.lengths_vary])
def test_the_room_that_one_call_shows_is_enough_for_the_others(slug):
    problem = registry.get(slug)
    examiner, first = Examiner(problem), first_call(problem, SizeName.BASE)
    calls = [replace(first, index=index, rank=rank) for index in range(CALLS) for rank in range(WORLD_SIZE)]
    expected = [expected_bytes(problem, examiner, call) for call in calls]
    rooms = [usual_room(problem, examiner, call) for call in calls[:WORLD_SIZE]]
    assert max(expected) > 0
    assert min(rooms) > max(expected) + 64 * 1024


@pytest.mark.parametrize("slug", [problem.slug for problem in registry.problems() if not problem.lengths_vary])
def test_no_call_owes_more_than_the_symbols_of_its_outputs_say(slug):
    problem, random = registry.get(slug), Random(slug)
    opened = Opened(
        problem=problem,
        examiner=Examiner(problem),
        template=first_call(problem, SizeName.TINY),
        make_inputs=load(slug).make_inputs,
    )
    for index, regime in enumerate(problem.regimes_at(SizeName.TINY, WORLD_SIZE)):
        call = replace(in_regime(opened.template, regime.drawn(random)), index=1 + index)
        assert expected_bytes(problem, opened.examiner, call) <= opened.room(call) - 2 * OUTPUT_HEADER_BYTES, (
            call.regime
        )


def test_there_is_room_to_spare_only_where_a_length_has_changed():
    """A quarter more is for the next, longer draw; elsewhere it would take memory from submissions."""
    gigabytes = 11 * 10**9
    assert room_to_grow(gigabytes, has_grown=False) == gigabytes
    assert room_to_grow(gigabytes, has_grown=True) == gigabytes + gigabytes // 4
