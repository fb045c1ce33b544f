"""A problem's executable parts, loaded together, and the one way to run a program on a call."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch.distributed as dist
from torch import Tensor

from problems import registry
from problems.inputs.groups import Group
from problems.inputs.modules import Module, build
from problems.inputs.values import Arguments, Call
from problems.outputs import checking
from problems.outputs.comparison import Comparison
from problems.spec.schema import Problem

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
        """What `program` returns (and writes) for `call` on this rank."""
        return self.run_with(program, self.make_inputs(call))

    def run_with(self, program: Program, arguments: Arguments) -> Outputs:
        """As `run`, with the given arguments; those declared mutable may change."""
        # As in the judge: a program that puts another tensor into a list of tensors has not written into the first.
        written = [output.written_in(arguments) for output in self.problem.outputs]
        returned = program(*map(_materialise, arguments.values()))
        return tuple(checking.collected(self.problem, returned, written))

    def check(self, call: Call, actual: Outputs, expected: Outputs) -> tuple[Comparison, ...]:
        """Compare every output of this rank, structure first.

        Raises:
            WrongStructure: the number of outputs, a shape, a dtype or the kind of device differs, or one is no tensor.
        """
        if (wrong := checking.wrong_number(self.problem, len(actual))) is not None:
            raise WrongStructure(wrong)
        for output, value, right in zip(self.problem.outputs, actual, expected, strict=True):
            if (wrong := checking.wrong_form(call, output, checking.form_of(value), right)) is not None:
                raise WrongStructure(wrong)
        return self.compare(call, actual, expected)


@cache
def load(slug: str) -> Implementation:
    """The problem called `slug`; raises problems.registry.UnknownProblem."""
    problem = registry.get(slug)
    package = registry.package(slug)
    oracle = importlib.import_module(f"{package}.oracle")
    variants = importlib.import_module(f"{package}.variants")

    return Implementation(
        problem=problem,
        make_inputs=importlib.import_module(f"{package}.inputs").make_inputs,
        solution=importlib.import_module(f"{package}.reference").solution,
        expected=oracle.expected,
        compare=partial(checking.compared, problem, oracle),
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
