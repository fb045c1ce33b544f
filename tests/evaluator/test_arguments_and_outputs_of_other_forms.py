"""Sparse tensors reach a rank as they are, and lists of tensors come back as their stack."""

import mmap
from typing import Any

import pytest
import torch

from evaluator.arena.loaded_call import interleave
from evaluator.arena.structure import Packer, StructureError, Unpacker, copy_into
from problems.harness.trials import _same


def carried(value: Any) -> tuple[Any, list[torch.Tensor]]:
    """`value` as a rank receives it, with the tensors that are watched for changes."""
    packer = Packer()
    tree = packer.pack(value)
    buffer = mmap.mmap(-1, max(1, packer.size))
    for start, tensor in packer.tensors:
        copy_into(buffer, start, tensor)
    unpacker = Unpacker(buffer, data=0, device=torch.device("cpu"), group_of=tuple)
    return unpacker.unpack(tree), unpacker.tensors


def a_filter() -> torch.Tensor:
    indices = torch.tensor([[0, 0, 1], [2, 4, 0]])
    return torch.sparse_coo_tensor(indices, torch.randn(3), (2, 5), is_coalesced=True, check_invariants=True)


def test_rank_receives_the_sparse_tensor_coalesced():
    filter_ = a_filter()
    received, _ = carried(filter_)
    assert (received.layout, received.is_coalesced()) == (torch.sparse_coo, True)
    assert received.shape == filter_.shape
    assert _same(received, filter_)


def test_sparse_tensor_without_entries_arrives():
    empty = torch.sparse_coo_tensor(
        torch.empty(2, 0, dtype=torch.int64), torch.empty(0), (2, 5), check_invariants=True
    ).coalesce()
    received, _ = carried(empty)
    assert torch.equal(received.to_dense(), torch.zeros(2, 5))


@pytest.mark.parametrize("part", ["indices", "values"])
def test_change_of_a_sparse_tensor_is_seen(part: str):
    received, watched = carried(a_filter())
    before = [tensor.clone() for tensor in watched]
    getattr(received, part)().add_(1)
    changed = [not torch.equal(now, then) for now, then in zip(watched, before, strict=True)]
    assert changed == [part == "indices", part == "values"]


@pytest.mark.parametrize("layout", ["sparse_csr", "uncoalesced"])
def test_other_layouts_are_refused(layout: str):
    value = (
        a_filter().to_sparse_csr() if layout == "sparse_csr" else torch.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (3,))
    )
    with pytest.raises(StructureError, match="only coalesced COO"):
        Packer().pack(value)


@pytest.mark.parametrize("numbers", [[3, 4], (3, 4), torch.Size([3, 4])])
def test_ints_count_as_a_tensor_on_the_host(numbers: Any):
    first, second = interleave((numbers, torch.zeros(1)), [None, None])
    assert first.dtype is torch.int64
    assert first.tolist() == [3, 4]
    assert second.tolist() == [0.0]


@pytest.mark.parametrize("other", [[True, False], [1.0, 2.0], [1, 2.0], []])
def test_other_lists_do_not(other: list[Any]):
    assert interleave((other, torch.zeros(1)), [None, None])[0] is other


def test_list_comes_back_as_its_stack_and_others_stay():
    blocks, total = [torch.ones(2), torch.zeros(2)], torch.tensor(3.0)
    first, second = interleave((blocks, total), [None, None], lists=[0])
    assert torch.equal(first, torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
    assert second is total


def test_written_list_has_the_entries_that_the_call_left():
    argument = [torch.zeros(2), torch.zeros(2)]
    argument[1] = torch.ones(2)
    argument[0].add_(5)
    returned, written = interleave((torch.tensor(1.0),), [None, argument], lists=[1])
    assert torch.equal(written, torch.tensor([[5.0, 5.0], [1.0, 1.0]]))
    assert returned.shape == ()


@pytest.mark.parametrize("wrong", [[], [torch.zeros(2), torch.zeros(3)], [torch.zeros(2), None], torch.zeros(2, 2)])
def test_what_is_no_list_of_like_tensors_is_passed_on_to_be_described(wrong: Any):
    assert interleave((wrong, torch.zeros(())), [None, None], lists=[0])[0] is wrong
