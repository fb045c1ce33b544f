"""Files in memory through which contents reach the sandbox and outputs come back."""

import fcntl
import mmap
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from evaluator.arena.structure import Packer, copy_into, head_of, view_of
from problems.schema import Problem

_SEALED = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def write_inputs(
    problem: Problem, arguments: Mapping[str, Any], *, groups: Sequence[Sequence[int]]
) -> tuple[int, list[str]]:
    """A sealed memory file with one rank's arguments of one call; returns its descriptor and whose tensors it holds.

    Args:
        problem: says which arguments are mutable and which outputs are written in place.
        arguments: values by parameter name, in signature order.
        groups: every process group that any rank of the call needs, in the order in which to create them.
    """
    packer = Packer()
    packed: list[list[Any]] = []
    owners: list[str] = []
    for name, value in arguments.items():
        packed.append([name, packer.pack(value)])
        owners += [name] * (len(packer.tensors) - len(owners))
    tree = {
        "arguments": packed,
        "groups": [list(ranks) for ranks in groups],
        "mutable": [argument.name for argument in problem.arguments if argument.mutable or argument.scratch],
        "outputs": [None if out.argument is None else [out.argument, out.element] for out in problem.outputs],
        "nothing": list(problem.nothing_at),
    }
    head = head_of(tree)
    descriptor = os.memfd_create("inputs", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(descriptor, len(head) + packer.size)
    with mmap.mmap(descriptor, 0) as buffer:
        buffer[: len(head)] = head
        for start, tensor in packer.tensors:
            copy_into(buffer, len(head) + start, tensor)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALED)
    return descriptor, owners


def groups_of(arguments: Mapping[str, Any]) -> list[list[int]]:
    """The process groups among a rank's arguments."""
    packer = Packer()
    for value in arguments.values():
        packer.pack(value)
    return packer.groups


def read_output(
    buffer: mmap.mmap, *, dtype: torch.dtype, shape: Sequence[int], start: int, device: torch.device
) -> torch.Tensor:
    """The tensor at byte `start` of a copied output file, on `device`."""
    count = 1
    for extent in shape:
        count *= extent
    return view_of(buffer, dtype=dtype, start=start, count=count).reshape(tuple(shape)).to(device)
