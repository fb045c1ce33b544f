"""Sparse tensors reach a rank as they are, and lists of tensors come back as their stack."""

import collections
import mmap
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch

from evaluator.arena.loaded_call import copy_of, interleave, place_outputs
from evaluator.arena.structure import Packer, StructureError, Unpacker, copy_into
from problems import registry
from problems.harness.trials import _same
from problems.outputs import checking
from problems.spec.schema import Problem


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


@pytest.mark.parametrize(
    ("value", "half"),
    [
        (torch.tensor([3.0]), torch.tensor([1.5])),
        (torch.tensor([3.0], dtype=torch.bfloat16), torch.tensor([1.5], dtype=torch.bfloat16)),
        (torch.tensor([2.0 + 4.0j]), torch.tensor([1.0 + 2.0j])),
        (torch.tensor([3]), torch.tensor([3])),
        (torch.tensor([2.0]).to(torch.float8_e4m3fn), torch.tensor([2.0]).to(torch.float8_e4m3fn)),
    ],
)
def test_call_that_follows_another_at_once_has_half_of_every_number_that_is_not_whole(value: Any, half: Any):
    copied, number = copy_of([{"x": value}, 0.5], factor=0.5)
    assert number == 0.5
    assert copied["x"].dtype == half.dtype
    assert _same(copied["x"], half)
    assert copied["x"].data_ptr() != value.data_ptr()


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


class Neighbours(NamedTuple):
    """The outputs of problem 79 under names of the program's own."""

    similarities: torch.Tensor
    labels: torch.Tensor


SCORES = torch.tensor([[3.0, 1.0, 2.0]])
FORMS = {
    "tuple": tuple(SCORES.topk(2)),
    "list": list(SCORES.topk(2)),
    "typing.NamedTuple": Neighbours(*SCORES.topk(2)),
    "collections.namedtuple": collections.namedtuple("Pair", "first second")(*SCORES.topk(2)),  # noqa: PYI024
    "torch.return_types": SCORES.topk(2),
}


@pytest.mark.parametrize("form", FORMS)
def test_entries_of_every_tuple_are_outputs_to_the_rank_and_to_the_problem(form: str):
    problem = registry.get("dinov2_distributed_knn")
    for outputs in (interleave(FORMS[form], [None, None]), checking.collected(problem, FORMS[form], [None, None])):
        assert [output.tolist() for output in outputs] == [[[3.0, 2.0]], [[0, 2]]]


def test_named_tuple_of_tensors_is_stacked_where_the_output_is_a_list():
    blocks = Neighbours(torch.ones(2), torch.zeros(2))
    assert interleave((blocks, torch.zeros(())), [None, None], lists=[0])[0].tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_size_alone_is_one_output():
    (only,) = interleave(torch.Size([3, 4]), [None])
    assert only.tolist() == [3, 4]


class Batch(torch.Tensor):
    """A subclass, which may have methods of its own."""


NUMBERS = torch.arange(6.0).reshape(2, 3)
ODD = {
    "nothing": None,
    "a tensor": NUMBERS,
    "a transposed view": NUMBERS.T,
    "a complex tensor": torch.complex(NUMBERS, NUMBERS).conj(),
    "no elements": torch.empty(0, 3),
    "a parameter": torch.nn.Parameter(NUMBERS.clone()),
    "a tensor with a gradient": NUMBERS.clone().requires_grad_() * 2,
    "a tensor of a subclass": NUMBERS.clone().as_subclass(Batch),
    "a sparse tensor": NUMBERS.to_sparse(),
    "a number": 3,
    "a truth": True,
    "a text": "outputs",
    "a size": NUMBERS.shape,
    "no entries": (),
    "integers": (3, 4),
    "truths": [True, False],
    "an integer and a float": [3, 4.0],
    "a pair": (NUMBERS, NUMBERS + 1),
    "a list": [NUMBERS, NUMBERS + 1],
    "a named tuple": Neighbours(NUMBERS, NUMBERS + 1),
    "torch's return type": NUMBERS.topk(2),
    "nothing among tensors": [NUMBERS, None, NUMBERS, NUMBERS],
    "two shapes": [NUMBERS, NUMBERS.T],
    "two dtypes": [NUMBERS, NUMBERS.double()],
    "sparse ones": [NUMBERS.to_sparse(), NUMBERS.to_sparse()],
    "lists in a list": [[NUMBERS, NUMBERS], [NUMBERS]],
    "a set": {3, 4},
    "a dict of another name": {"no_output": NUMBERS},
    "an ordered dict": collections.OrderedDict(output=NUMBERS),
    "an iterator": iter([NUMBERS]),
}
KINDS_OF_OUTPUTS = {
    "one": "allreduce",
    "two": "rope_allgather",
    "nothing expected among them": "importance_sampling_loss",
    "written into a list": "clip_grad_norm_no_ep",
    "lists": "deepmd_kalman_filter_optimizer",
}


def returns(problem: Problem, value: Any) -> Iterator[Any]:
    """`value` alone, and as one of the outputs, in a tuple and in dicts of another order."""
    names = [output.name for output in problem.outputs if output.argument is None]
    yield value
    yield tuple(value for _ in names)
    yield tuple(NUMBERS if name == names[-1] else value for name in names)
    yield {name: value if name == names[0] else NUMBERS + index for index, name in reversed(list(enumerate(names)))}
    yield {"more": value, **dict.fromkeys(names, NUMBERS)}


@pytest.mark.parametrize("slug", KINDS_OF_OUTPUTS.values(), ids=KINDS_OF_OUTPUTS)
def test_a_rank_and_the_tests_of_problems_collect_odd_values_alike(slug: str):
    problem = registry.get(slug)
    for name, value in ODD.items():
        written = [None if output.argument is None else (value, NUMBERS) for output in problem.outputs]
        for returned in returns(problem, value):
            in_tests = checking.collected(problem, returned, written)
            in_a_rank = interleave(
                returned,
                written,
                nothing=problem.nothing_at,
                lists=problem.list_indices,
                names=[output.name for output in problem.outputs],
            )
            described = place_outputs(mmap.mmap(-1, 1 << 16), in_a_rank)
            assert [checking.form_of(each) for each in in_tests] == [
                {field: found for field, found in entry.items() if field != "start"} for entry in described
            ], name
            for left, right, entry in zip(in_tests, in_a_rank, described, strict=True):
                assert left is right or ("other" not in entry and torch.equal(left, right)), name
