"""The reference's calls made as a sandbox rank makes them: the same contents, by the rank's own way of reading them."""

import importlib

import pytest
import torch

from evaluator.arena.structure import Packer
from evaluator.oracle.desk import Desk
from problems import registry
from problems.schema import SizeName
from problems.values import Call

WORLD_SIZE = 4


@pytest.mark.parametrize("slug", [problem.slug for problem in registry.problems()])
def test_what_is_read_at_the_desk_is_what_was_drawn(slug: str) -> None:
    problem = registry.get(slug)
    if problem.refuses_world_size(WORLD_SIZE) is not None:
        pytest.skip("not on four ranks")
    call = Call(
        key=bytes(32),
        index=0,
        rank=1,
        world_size=WORLD_SIZE,
        dims=problem.dims(SizeName.TINY, WORLD_SIZE),
        dtype=torch.bfloat16,
        device=torch.device("cpu"),
    )
    values = importlib.import_module(f"{registry.package(slug)}.inputs").make_inputs(call)
    packer = Packer()
    for value in values.values():
        packer.pack(value)
    drawn = [flat.clone() for _, flat in packer.tensors]
    desk = Desk(problem, output_bytes=1 << 22, device=torch.device("cpu"))
    try:
        desk.lay_out(values, groups=packer.groups)
        desk.publish()
        desk.read(group_of=lambda ranks: ranks)
        slot = desk.slot
        assert len(slot.arguments) == len(values)
        assert len(slot.tensors) == len(drawn)
        for tensor, flat in zip(slot.tensors, drawn, strict=True):
            span = tensor.as_strided((flat.numel(),), (1,))
            assert torch.equal(span.view(torch.uint8), flat.view(torch.uint8))
        assert slot.first_change() == -1
        desk.keep_books([])
    finally:
        desk.close()
