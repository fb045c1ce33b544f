"""Room for outputs whose length follows from input values."""

import math
from dataclasses import replace
from random import Random

import pytest
import torch

from evaluator.arena.protocol import OUTPUT_HEADER_BYTES
from evaluator.arena.structure import align
from evaluator.host.measure import covering
from evaluator.oracle.call_memory import input_room
from evaluator.oracle.oracle_rank import Opened, in_regime, output_rooms
from evaluator.oracle.verify import Examiner
from problems import registry
from problems.harness.implementation import load
from problems.inputs.values import Call
from problems.outputs.checking import dtype_of
from problems.spec.schema import Problem, SizeName

WORLD_SIZE = 4
CALLS = 6
DRAWN = 60


@pytest.mark.parametrize(
    "slug", ["gnn_sparse_embedding_all2all", "torchrec_kjt_all2all", "gsplat_3d_gaussian_splatting"]
)
def test_the_room_that_one_call_shows_is_enough_for_the_others(slug):
    problem = registry.get(slug)
    examiner = Examiner(problem)
    calls = [
        Call(
            key=bytes(32),
            index=index,
            rank=rank,
            world_size=WORLD_SIZE,
            dims=problem.dims(SizeName.BASE, WORLD_SIZE),
            dtype=torch.bfloat16,
            device=torch.device("cpu"),
        )
        for index in range(CALLS)
        for rank in range(WORLD_SIZE)
    ]
    expected = [sum(align(right.nbytes) for right in examiner.expected(call)) for call in calls]
    rooms = [output_rooms(problem, examiner, call, SizeName.BASE) for call in calls[:WORLD_SIZE]]
    assert max(expected) > 0
    assert min(usual for _, usual in rooms) > max(expected) + 64 * 1024


def opened_size(problem: Problem) -> Opened:
    """The problem at its smallest size, as rank 0 of an oracle group has it open."""
    examiner = Examiner(problem)
    template = Call(
        key=bytes(32),
        index=0,
        rank=0,
        world_size=WORLD_SIZE,
        dims=problem.dims(SizeName.TINY, WORLD_SIZE),
        dtype=torch.bfloat16,
        device=torch.device("cpu"),
    )
    longest, usual = output_rooms(problem, examiner, template, SizeName.TINY)
    return Opened(
        problem=problem,
        examiner=examiner,
        template=template,
        make_inputs=load(problem.slug).make_inputs,
        output_bytes=longest,
        usual_bytes=usual,
    )


@pytest.mark.parametrize("slug", [problem.slug for problem in registry.problems() if problem.lengths_vary])
def test_what_any_drawn_call_owes_has_room(slug):
    """In some problems regimes that change no length of an output by its symbols change how much a rank gets."""
    problem, random = registry.get(slug), Random(slug)
    opened = opened_size(problem)
    drawn = covering.covering(problem.regimes_at(SizeName.TINY, WORLD_SIZE), DRAWN, random)
    for index, call in enumerate(covering.joined(parts).drawn(random) for parts in drawn):
        made = replace(in_regime(opened.template, call), index=1 + index)
        owed = sum(align(tensor.nbytes) for tensor in opened.examiner.expected(made))
        assert owed <= opened.room(made) - 2 * OUTPUT_HEADER_BYTES, call.name


@pytest.mark.parametrize("slug", [problem.slug for problem in registry.problems() if not problem.lengths_vary])
def test_no_draw_of_a_regime_is_longer_than_its_largest_numbers_say(slug):
    problem, random = registry.get(slug), Random(slug)
    opened = opened_size(problem)
    for regime in problem.regimes_at(SizeName.TINY, WORLD_SIZE):
        for _ in range(DRAWN if regime.ranges else 0):
            call = in_regime(opened.template, regime.drawn(random))
            elements = [math.prod(call.shape(output.shape)) for output in problem.outputs]
            widths = [dtype_of(output, call).itemsize for output in problem.outputs]
            owed = sum(align(count * width) for count, width in zip(elements, widths, strict=True))
            assert owed <= opened.output_bytes - 2 * OUTPUT_HEADER_BYTES, call.regime


@pytest.mark.parametrize(
    ("slug", "regime"),
    [("sam3_allgather_iou_suppression", "reached_threshold"), ("moe_pre_all2all", "many_tokens")],
)
def test_a_regime_that_stands_alone_makes_only_its_own_calls_long(slug, regime):
    """Every byte of room costs each call of a check on CPU ranks."""
    problem = registry.get(slug)
    opened = opened_size(problem)
    longest = in_regime(opened.template, problem.regime(regime).largest())
    assert 4 * opened.room(opened.template) < opened.room(longest) <= opened.output_bytes


def test_inputs_have_room_to_spare_only_where_their_length_has_changed():
    """Every input begins at one of 256 offsets of a page; a quarter more is for the next, longer draw."""
    gigabytes = 11 * 10**9
    assert input_room(gigabytes, has_grown=False) == gigabytes + 256 * 4096
    assert input_room(gigabytes, has_grown=True) == gigabytes + 256 * 4096 + gigabytes // 4
