"""One program on one call on this rank, compared with the oracle: the task that tests and calibration give to ranks."""

from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random

import torch
import torch.distributed as dist
from torch import Tensor

from problems.harness.implementation import Implementation, Outputs, WrongStructure, load
from problems.harness.mutants import NARROW, ORDERS, generic
from problems.inputs.modules import Module
from problems.inputs.values import Call
from problems.outputs.comparison import Comparison
from problems.spec.schema import SizeName

REFERENCE = "reference"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Which program runs on which call.

    `program` is "reference", "honest:NAME", "mutant:NAME" or "narrow:REGIME" (from the problem's variants),
    "generic:NAME", or "order:NAME" or "wire:NAME" (from ORDERS and NARROW of `problems.harness.mutants`). `regime`
    names that of the call; "" is a call like the timed ones.
    """

    slug: str
    program: str
    size: str = SizeName.TINY
    key: bytes
    index: int = 0
    dtype: str = "bfloat16"
    regime: str = ""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one rank found: comparisons by output, or why the structure was wrong; arguments changed unlawfully."""

    comparisons: tuple[Comparison, ...] = ()
    wrong_structure: str | None = None
    changed_arguments: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether this rank's result is accepted."""
        is_right = all(comparison.passed for comparison in self.comparisons)
        return is_right and self.wrong_structure is None and not self.changed_arguments


def call_of(trial: Trial, implementation: Implementation, *, rank: int, world_size: int) -> Call:
    """The call of `trial` as `rank` gets it on the CPU."""
    random = Random(trial.key + trial.index.to_bytes(4, "little"))  # noqa: S311 - a trial repeats by its key
    regime = implementation.problem.regime(trial.regime).drawn(random) if trial.regime else None
    return Call(
        key=trial.key,
        index=trial.index,
        rank=rank,
        world_size=world_size,
        dims=implementation.problem.dims(trial.size, world_size, regime),
        dtype=getattr(torch, trial.dtype),
        device=torch.device("cpu"),
        regime=regime,
    )


def attempt(trial: Trial) -> Outcome:
    """Run `trial` on this rank and compare; every rank of the world attempts it at once."""
    implementation = load(trial.slug)
    call = call_of(trial, implementation, rank=dist.get_rank(), world_size=dist.get_world_size())
    try:
        outputs, changed = outputs_of(trial.program, implementation, call)
        comparisons = implementation.check(call, outputs, _expected(replace(trial, program=REFERENCE), call.rank))
    except WrongStructure as error:
        return Outcome(wrong_structure=str(error))
    return Outcome(comparisons=comparisons, changed_arguments=changed)


@lru_cache(maxsize=4)
def _expected(trial: Trial, rank: int) -> Outputs:
    """The expected output of `rank` in the call of `trial`. It is kept, as many programs are tried on few calls."""
    implementation = load(trial.slug)
    return implementation.expected(call_of(trial, implementation, rank=rank, world_size=dist.get_world_size()))


def outputs_of(program: str, implementation: Implementation, call: Call) -> tuple[Outputs, tuple[str, ...]]:
    """The outputs of the program called `program`, and the immutable arguments that it changed."""
    family, _, name = program.partition(":")
    if family in ("generic", "order", "wire"):
        made = {"generic": generic(implementation.problem), "order": ORDERS, "wire": NARROW}
        return made[family][name](implementation, call), ()
    if family == "narrow" and name not in implementation.narrow:
        return NARROW[implementation.problem.regime(name).narrow](implementation, call), ()
    programs = {"honest": implementation.honest, "mutant": implementation.mutants, "narrow": implementation.narrow}
    solution = implementation.solution if family == REFERENCE else programs[family][name]
    arguments = implementation.make_inputs(call)
    outputs = implementation.run_with(solution, arguments)
    return outputs, changed_arguments(implementation, call, arguments)


def changed_arguments(implementation: Implementation, call: Call, arguments: dict[str, object]) -> tuple[str, ...]:
    """Names of tensor arguments that differ from a fresh draw although no output is written there."""
    fresh = implementation.make_inputs(call)
    immutable = [
        argument.name for argument in implementation.problem.arguments if not (argument.mutable or argument.scratch)
    ]
    return tuple(name for name in immutable if not _same(arguments[name], fresh[name]))


def _same(left: object, right: object) -> bool:
    """Whether two arguments are equal; only tensors, alone, in lists or in modules, can differ."""
    if isinstance(left, Tensor) and isinstance(right, Tensor) and left.is_sparse:
        return _same(left.indices(), right.indices()) and _same(left.values(), right.values())
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        return left.shape == right.shape and torch.equal(_bytes(left), _bytes(right))
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return all(map(_same, left, right))
    if isinstance(left, Module) and isinstance(right, Module):
        return all(torch.equal(tensor, right.tensors[name]) for name, tensor in left.tensors.items())
    return True


def _bytes(tensor: Tensor) -> Tensor:
    """The bytes of `tensor`: unlike numbers, they compare equal where both are the same NaN."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)
