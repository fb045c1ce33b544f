"""A call as a rank holds it, submission's or reference's: what the host hands over, read the rank's own way."""

import importlib
import os
from pathlib import Path

import pytest
import torch

from evaluator.arena.call_buffer import CallBuffer
from evaluator.arena.gate import flat_bytes
from evaluator.arena.structure import Packer, as_bytes
from evaluator.host.measure import outputs
from evaluator.oracle import call_memory
from evaluator.oracle.reference_rank import empty_call, spec_of
from problems import registry
from problems.inputs.values import Arguments, Call
from problems.spec.schema import SizeName

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


def laid_out(buffer: CallBuffer, values: Arguments, *, slug: str = "allreduce", reuse: bool = False) -> None:
    """What the host does for one call of a CPU rank: a file for the outputs, then one with the inputs."""
    packer = packed(values)
    buffer.load([outputs.create(1 << 22)])
    buffer.take_inputs(call_memory.prepare_inputs(registry.get(slug), values, groups=packer.groups).file, reuse=reuse)


@pytest.fixture
def buffer() -> CallBuffer:
    return CallBuffer(torch.device("cpu"), group_of=group_of)


@pytest.mark.parametrize("slug", [problem.slug for problem in registry.problems()])
def test_what_a_rank_reads_is_what_was_drawn(slug: str, buffer: CallBuffer) -> None:
    problem = registry.get(slug)
    if problem.refuses_world_size(WORLD_SIZE) is not None:
        pytest.skip("not on four ranks")
    values = drawn(slug)
    flats = [flat.clone() for _, flat in packed(values).tensors]
    laid_out(buffer, values, slug=slug)
    call = buffer.call
    assert len(call.arguments) == len(values)
    assert len(call.tensors) == len(flats)
    for tensor, flat in zip(call.tensors, flats, strict=True):
        span = tensor.as_strided((flat.numel(),), (1,))
        assert torch.equal(span.view(torch.uint8), flat.view(torch.uint8))
        assert tensor.storage_offset() > 0, "a program that reads from the start of a storage reads something else"
        assert tensor.data_ptr() % 16 == 0, "pages promise it to programs with vector loads"
    assert call.first_change() == -1


def test_a_cpu_rank_has_no_call_before_its_inputs_come(buffer: CallBuffer) -> None:
    """They come with GO: what a submission has to do while the clock runs, the reference does too."""
    buffer.load([outputs.create(1 << 22)])
    with pytest.raises(RuntimeError, match="before it was loaded"):
        _ = buffer.call


def test_inputs_are_written_into_the_tensors_of_the_call_before_where_that_is_asked_for(buffer: CallBuffer) -> None:
    laid_out(buffer, drawn("allreduce"))
    before = [tensor.data_ptr() for tensor in buffer.call.tensors]
    laid_out(buffer, drawn("allreduce", index=1), reuse=True)
    assert [tensor.data_ptr() for tensor in buffer.call.tensors] == before
    assert torch.equal(buffer.call.tensors[0], next(iter(drawn("allreduce", index=1).values())))


def test_an_empty_call_gives_back_as_much_as_the_reference_did_and_computes_nothing(buffer: CallBuffer) -> None:
    laid_out(buffer, drawn("allreduce"))
    specs = [spec_of(torch.zeros(3, 5, dtype=torch.float16)), spec_of(torch.zeros(7))]
    call = empty_call(buffer.call, specs)
    returned = call.collect(torch.ones(1))
    assert [(tuple(each.shape), each.dtype) for each in returned] == [((3, 5), torch.float16), ((7,), torch.float32)]
    assert call.tensors
    assert call.first_change() == -1


def test_what_was_returned_is_stored_once_more_as_it_is_now(buffer: CallBuffer) -> None:
    laid_out(buffer, drawn("allreduce"))
    late = torch.zeros(4)
    buffer.call.returned = [late]
    late += 3
    file = outputs.create(1 << 22)
    buffer.store_again(os.dup(file))
    (entry,) = outputs.read_header(file)
    raw = os.pread(file, 16, entry["start"])
    os.close(file)
    assert torch.frombuffer(bytearray(raw), dtype=torch.float32).tolist() == [3.0] * 4


def test_call_after_call_leaves_no_file_open(buffer: CallBuffer) -> None:
    laid_out(buffer, drawn("allreduce"))
    opened = open_descriptors()
    for index in range(5):
        laid_out(buffer, drawn("allreduce", index=index))
    assert open_descriptors() == opened


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("bytes_of", [as_bytes, flat_bytes])
def test_the_bytes_of_a_column_are_its_own_however_few_rows_there_are(bytes_of, rows) -> None:
    """Of one row or none a column counts as contiguous, and still has the stride of its table."""
    column = torch.arange(4 * rows).view(rows, 4)[:, 1]
    assert bytes_of(column.contiguous()).tolist() == list(column.numpy().tobytes())
