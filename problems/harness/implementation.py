"""A problem's executable parts, loaded together, and the one way to run a program on a call."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems import registry
from problems.inputs.groups import Group
from problems.inputs.modules import Module, build
from problems.inputs.values import Arguments, Call
from problems.outputs.comparison import Comparison, compare_output
from problems.outputs.narrow_floats import comparable
from problems.specification.schema import Output, Problem

Program = Callable[..., Any]
"""Anything with a problem's `solution` signature."""

Outputs = tuple[Tensor, ...]
"""One tensor per output of a problem, in the order of its spec."""


class WrongStructure(ValueError):
    """A program returned something else than the outputs of its problem; the message says what was expected."""


@dataclass(frozen=True, kw_only=True)
class Implementation:
    """A problem with everything of its folder that needs torch."""

    problem: Problem
    make_inputs: Callable[[Call], Arguments]
    solution: Program
    expected: Callable[[Call], Outputs]
    compare: Callable[[Call, Outputs, Outputs], tuple[Comparison, ...]]
    honest: Mapping[str, Program]
    mutants: Mapping[str, Program]
    narrow: Mapping[str, Program]

    def run(self, program: Program, call: Call) -> Outputs:
        """What `program` returns (and writes) for `call` on this rank.

        Raises:
            WrongStructure: the number of tensors, or that something is no tensor.
        """
        return self.run_with(program, self.make_inputs(call))

    def run_with(self, program: Program, arguments: Arguments) -> Outputs:
        """As `run`, with the given arguments; those declared mutable may change."""
        returned = program(*map(_materialise, arguments.values()))
        return _collect(self.problem, returned, arguments)

    def check(self, call: Call, actual: Outputs, expected: Outputs) -> tuple[Comparison, ...]:
        """Compare every output of this rank, structure first.

        Raises:
            WrongStructure: a shape or dtype differs.
        """
        for output, tensor, wanted in zip(self.problem.outputs_in(call.regime), actual, expected, strict=True):
            dtype = dtype_of(output, call)
            if tensor.shape != wanted.shape or tensor.dtype != dtype:
                raise WrongStructure(
                    f"output {output.name!r} is {tuple(tensor.shape)} {tensor.dtype}, "
                    f"expected {tuple(wanted.shape)} {dtype}"
                )
        return self.compare(call, actual, expected)


def dtype_of(output: Output, call: Call) -> torch.dtype:
    """The torch dtype that `output` has in `call`."""
    if output.dtype == "input":
        return call.dtype
    dtype: torch.dtype = getattr(torch, output.dtype)
    return dtype


@cache
def load(slug: str) -> Implementation:
    """The problem called `slug`; raises problems.registry.UnknownProblem."""
    problem = registry.get(slug)
    package = registry.package(slug)
    oracle = importlib.import_module(f"{package}.oracle")
    variants = importlib.import_module(f"{package}.variants")

    def compare_each(call: Call, actual: Outputs, expected: Outputs) -> tuple[Comparison, ...]:
        triples = zip(problem.outputs_in(call.regime), actual, expected, strict=True)
        return tuple(compare_output(triple[0], *comparable(*triple)) for triple in triples)

    return Implementation(
        problem=problem,
        make_inputs=importlib.import_module(f"{package}.inputs").make_inputs,
        solution=importlib.import_module(f"{package}.reference").solution,
        expected=oracle.expected,
        compare=getattr(oracle, "compare", compare_each),
        honest=variants.HONEST,
        mutants=variants.MUTANTS,
        narrow=getattr(variants, "NARROW", {}),
    )


@cache
def _process_group(ranks: tuple[int, ...]) -> dist.ProcessGroup | None:
    """The real group of `ranks`, made once per process by its members alone."""
    if len(ranks) == dist.get_world_size():
        return dist.group.WORLD
    group: dist.ProcessGroup = dist.new_group(list(ranks), use_local_synchronization=True)
    return group


def _materialise(value: Any) -> Any:
    """`value` with references replaced by real process groups and modules."""
    if isinstance(value, Module):
        return build(value)
    return _process_group(value.ranks) if isinstance(value, Group) else value


def _collect(problem: Problem, returned: Any, arguments: Arguments) -> Outputs:
    """The outputs in the order of the spec, from what was returned and what was written."""
    if isinstance(returned, dict):
        returned = named(returned, [output.name for output in problem.outputs])
    parts = list(returned) if isinstance(returned, (tuple, list)) else [] if returned is None else [returned]
    parts = without_nothing(parts, problem.nothing_at)
    count = sum(output.argument is None for output in problem.outputs)
    if len(parts) != count:
        raise WrongStructure(f"{problem.slug} returned {len(parts)} values, expected {count}")
    remaining = iter(parts)
    outputs = tuple(
        as_tensor(next(remaining) if output.argument is None else output.written_in(arguments), output)
        for output in problem.outputs
    )
    for output, value in zip(problem.outputs, outputs, strict=True):
        if not isinstance(value, Tensor):
            raise WrongStructure(f"output {output.name!r} is {type(value).__name__}, expected a tensor")
    return outputs


def named(returned: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    """The values of a returned dict in the order of the outputs' names, then those that no output is called by."""
    return [returned[name] for name in names if name in returned] + [
        value for name, value in returned.items() if name not in names
    ]


def without_nothing(parts: list[Any], indices: tuple[int, ...]) -> list[Any]:
    """`parts` less the entries at `indices`, as far as they are None."""
    return [part for index, part in enumerate(parts) if index not in indices or part is not None]


def as_tensor(value: Any, output: Output) -> Any:
    """The tensor that `value` counts as: a list of ints as int64, the list that `output` is as its stack."""
    if type(value) is torch.Size or (type(value) in (list, tuple) and value and all(type(x) is int for x in value)):
        return torch.tensor(value, dtype=torch.int64)
    if not output.is_list or not isinstance(value, (list, tuple)):
        return value
    likenesses = {(tensor.shape, tensor.dtype) for tensor in value}
    if len(likenesses) != 1:
        raise WrongStructure(f"output {output.name!r} is a list of {len(value)} tensors that are not of one shape")
    return torch.stack(tuple(value))
