"""A module reaches a sandbox rank as its kind and its tensors, and the rank gets a real one."""

import mmap

import torch

from evaluator.arena.structure import Packer, Unpacker, copy_into
from problems.inputs.modules import build, linear


def carried(value, *, previous=()):
    """`value` as a rank receives it, with the tensors of its file."""
    packer = Packer()
    tree = packer.pack(value)
    buffer = mmap.mmap(-1, max(1, packer.size))
    for start, tensor in packer.tensors:
        copy_into(buffer, start, tensor)
    unpacker = Unpacker(buffer, data=0, device=torch.device("cpu"), group_of=tuple, previous=previous)
    return unpacker.unpack(tree), unpacker.tensors


def a_linear():
    return linear(torch.randn(3, 5, dtype=torch.bfloat16), torch.randn(3, dtype=torch.bfloat16))


def test_rank_receives_a_real_linear_with_the_same_parameters():
    reference = a_linear()
    module, _ = carried(reference)
    rows = torch.randn(4, 5, dtype=torch.bfloat16)
    assert isinstance(module, torch.nn.Linear)
    assert (module.in_features, module.out_features) == (5, 3)
    assert torch.equal(module(rows), build(reference)(rows))
    assert not any(parameter.requires_grad for parameter in module.parameters())


def test_change_of_a_parameter_is_seen_in_the_tensors_that_are_watched():
    module, tensors = carried(a_linear())
    before = [tensor.clone() for tensor in tensors]
    module.weight.data.add_(1)
    assert [torch.equal(now, then) for now, then in zip(tensors, before, strict=True)] == [False, True]


def test_next_call_can_reuse_the_addresses_of_the_last():
    first, tensors = carried(a_linear())
    second, again = carried(a_linear(), previous=tensors)
    assert [tensor.data_ptr() for tensor in again] == [tensor.data_ptr() for tensor in tensors]
    assert torch.equal(first.weight, second.weight)
