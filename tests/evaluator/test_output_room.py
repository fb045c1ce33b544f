"""Room for outputs whose length follows from input values."""

import pytest
import torch

from evaluator.arena.structure import align
from evaluator.oracle.call_memory import input_room
from evaluator.oracle.oracle_rank import output_room
from evaluator.oracle.verify import Examiner
from problems import registry
from problems.inputs.values import Call
from problems.spec.schema import SizeName

WORLD_SIZE = 4
CALLS = 6


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
    room = [output_room(problem, examiner, call) for call in calls[:WORLD_SIZE]]
    assert max(expected) > 0
    assert min(room) > max(expected) + 64 * 1024


def test_inputs_have_room_to_spare_only_where_their_length_has_changed():
    """Every input begins at one of 256 offsets of a page; a quarter more is for the next, longer draw."""
    gigabytes = 11 * 10**9
    assert input_room(gigabytes, has_grown=False) == gigabytes + 256 * 4096
    assert input_room(gigabytes, has_grown=True) == gigabytes + 256 * 4096 + gigabytes // 4
