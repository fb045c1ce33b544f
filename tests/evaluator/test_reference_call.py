"""The reference's calls made as a sandbox rank makes them: the same contents, by the rank's own way of reading them."""

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from evaluator.arena.structure import Packer
from evaluator.oracle.reference_call import ReferenceMemory
from problems import registry
from problems.schema import SizeName
from problems.values import Arguments, Call

WORLD_SIZE = 4


def drawn(slug: str, *, index: int = 0) -> Arguments:
    """The arguments of rank 1 of four in one call at the smallest size."""
    call = Call(
        key=bytes(32),
        index=index,
        rank=1,
        world_size=WORLD_SIZE,
        dims=registry.get(slug).dims(SizeName.TINY, WORLD_SIZE),
        dtype=torch.bfloat16,
        device=torch.device("cpu"),
    )
    return importlib.import_module(f"{registry.package(slug)}.inputs").make_inputs(call)


def packed(values: Arguments) -> Packer:
    packer = Packer()
    for value in values.values():
        packer.pack(value)
    return packer


def group_of(ranks: tuple[int, ...]) -> tuple[int, ...]:
    return ranks


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def memory() -> Iterator[ReferenceMemory]:
    opened = ReferenceMemory(registry.get("allreduce"), output_bytes=1 << 22, device=torch.device("cpu"), sealer=None)
    yield opened
    opened.close()


@pytest.mark.parametrize("slug", [problem.slug for problem in registry.problems()])
def test_what_the_reference_reads_is_what_was_drawn(slug: str) -> None:
    problem = registry.get(slug)
    if problem.refuses_world_size(WORLD_SIZE) is not None:
        pytest.skip("not on four ranks")
    values = drawn(slug)
    packer = packed(values)
    flats = [flat.clone() for _, flat in packer.tensors]
    memory = ReferenceMemory(problem, output_bytes=1 << 22, device=torch.device("cpu"), sealer=None)
    try:
        assert memory.lay_out(values, groups=packer.groups, group_of=group_of) == packer.size
        call = memory.call(group_of=group_of)
        assert len(call.arguments) == len(values)
        assert len(call.tensors) == len(flats)
        for tensor, flat in zip(call.tensors, flats, strict=True):
            span = tensor.as_strided((flat.numel(),), (1,))
            assert torch.equal(span.view(torch.uint8), flat.view(torch.uint8))
        assert call.first_change() == -1
    finally:
        memory.close()


def test_a_cpu_rank_reads_its_inputs_when_the_call_is_asked_for_and_not_before(memory: ReferenceMemory) -> None:
    """What a submission has to do while the clock runs, the reference does too."""
    memory.lay_out(drawn("allreduce"), groups=[], group_of=group_of)
    with pytest.raises(AssertionError):
        _ = memory.last
    call = memory.call(group_of=group_of)
    assert memory.last is call
    assert memory.call(group_of=group_of) is call, "the same call again, not read anew"


def test_an_empty_call_gives_back_as_much_as_the_reference_did_and_computes_nothing(memory: ReferenceMemory) -> None:
    memory.lay_out(drawn("allreduce"), groups=[], group_of=group_of)
    assert memory.empty_call(group_of=group_of).collect(None) == [], "nothing is known of the outputs yet"
    memory.note([torch.zeros(3, 5, dtype=torch.float16), None, torch.zeros(7)])
    memory.lay_out(drawn("allreduce", index=1), groups=[], group_of=group_of)
    call = memory.empty_call(group_of=group_of)
    outputs = call.collect(torch.ones(1))
    assert [(tuple(each.shape), each.dtype) for each in outputs] == [((3, 5), torch.float16), ((7,), torch.float32)]
    assert call.tensors
    assert call.first_change() == -1


def test_calls_that_nobody_read_leave_no_file_open(memory: ReferenceMemory) -> None:
    memory.lay_out(drawn("allreduce"), groups=[], group_of=group_of)
    opened = open_descriptors()
    for index in range(5):
        memory.lay_out(drawn("allreduce", index=index), groups=[], group_of=group_of)
    assert open_descriptors() == opened
