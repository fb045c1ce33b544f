"""What every folder of the catalogue promises, checked without starting a rank."""

import hashlib
import inspect
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import torch

from problems import registry
from problems.harness.implementation import load
from problems.harness.mutants import generic, why_not_applicable
from problems.inputs.groups import Group
from problems.inputs.values import Arguments, Call
from problems.outputs.checking import dtype_of
from problems.spec.memory import held_bytes
from problems.spec.schema import Argument, ArgumentKind, Cost, Output, Problem, Regime, SizeName
from tests.docs.test_docstrings import long_sentences
from tests.docs.test_prose import long_parts
from tools.tables import problems_page as table

CARDS: dict[str, dict[str, dict[str, list[int | None]]]] = json.loads(
    (Path(__file__).parent / "cards.json").read_text(encoding="utf-8")
)
"""The problems that were published, with shapes at `base` by world size and name, and with inputs of their own."""
TENSORS = (ArgumentKind.TENSOR, ArgumentKind.TENSORS, ArgumentKind.SPARSE)
TESTED_WORLD_SIZES = (2, 4)
MOST_DRAWN_BYTES = 4e9
MOST_HELD_BYTES = 40e9
PROMISES: list[Callable[[Problem], None]] = []
"""What is checked of every problem, in the order of this file."""


def promise(check: Callable[[Problem], None]) -> Callable[[Problem], None]:
    PROMISES.append(check)
    return check


@pytest.mark.parametrize("problem", registry.problems(), ids=lambda problem: problem.slug)
def test_problem_keeps_every_promise(problem: Problem, subtests: pytest.Subtests):
    for check in PROMISES:
        with subtests.test(check.__name__):
            check(problem)


def make_call(
    problem: Problem, size: SizeName, *, world_size: int, rank: int = 0, index: int = 0, regime: Regime | None = None
) -> Call:
    drawn = None if regime is None else regime.drawn(Random(index))
    return Call(
        key=hashlib.sha256(problem.slug.encode()).digest(),
        index=index,
        rank=rank,
        world_size=world_size,
        dims=problem.dims(size, world_size, drawn),
        dtype=torch.bfloat16,
        device=torch.device("cpu"),
        regime=drawn,
    )


def a_world_size(problem: Problem) -> int:
    return next(size for size in (4, 2, 8) if problem.refuses_world_size(size) is None)


@promise
def base_has_the_shapes_of_the_card(problem: Problem) -> None:
    symbols = {output.name: output.shape for output in problem.outputs}
    symbols |= {argument.name: argument.shape for argument in problem.arguments}
    symbols |= {argument.name: (argument.count, *argument.shape) for argument in problem.arguments if argument.count}
    symbols |= {output.name: output.shape for output in problem.outputs if output.is_list}
    for world_size, shapes in CARDS.get(problem.slug, {}).items():
        call = make_call(problem, SizeName.BASE, world_size=int(world_size))
        assert {name: resolved(call, symbols[name]) for name in shapes} == shapes


def resolved(call: Call, symbols: tuple[str | int, ...]) -> list[int | None]:
    """A shape in numbers; None for a length that the data of a call decide."""
    return [call.dims.get(symbol) if isinstance(symbol, str) else symbol for symbol in symbols]


def fits(call: Call, tensor: torch.Tensor, item: Argument | Output) -> bool:
    """Whether a tensor has the shape of the spec, or that of the ranks beside a root."""
    shapes = [resolved(call, symbols) for symbols in (item.shape, item.shape_elsewhere) if symbols is not None]
    return any(
        len(tensor.shape) == len(shape)
        and all(own in (None, size) for own, size in zip(shape, tensor.shape, strict=True))
        for shape in shapes
    )


def drawn(problem: Problem, size: SizeName) -> bool:
    """Whether tests draw the inputs of a size: not where a rank alone holds more than a test machine has to spare."""
    return held_bytes(problem, problem.dims(size, a_world_size(problem))) <= MOST_DRAWN_BYTES


@promise
def inputs_are_what_the_spec_says(problem: Problem) -> None:
    for size in (SizeName.TINY, SizeName.BASE):
        if drawn(problem, size):
            _check_inputs(problem, make_call(problem, size, world_size=a_world_size(problem)))


def _check_inputs(problem: Problem, call: Call) -> None:
    arguments = load(problem.slug).make_inputs(call)
    assert tuple(arguments) == problem.parameter_names
    for argument in problem.arguments:
        value = arguments[argument.name]
        if argument.kind in TENSORS:
            expected = call.dtype if argument.dtype == "input" else getattr(torch, argument.dtype)
            tensors = value if argument.kind is ArgumentKind.TENSORS else [value]
            assert resolved(call, (argument.count or len(tensors),)) == [len(tensors)], argument.name
            assert all(fits(call, tensor, argument) for tensor in tensors), argument.name
            assert {tensor.dtype for tensor in tensors} == {expected}, argument.name
            is_sparse = argument.kind is ArgumentKind.SPARSE
            assert all(tensor.is_sparse == is_sparse for tensor in tensors), argument.name
        elif argument.kind is ArgumentKind.GROUP:
            assert value is None or isinstance(value, Group)


@promise
def oracle_has_the_shapes_of_the_spec(problem: Problem) -> None:
    call = make_call(problem, SizeName.TINY, world_size=a_world_size(problem))
    expected = load(problem.slug).expected(call)
    assert len(expected) == len(problem.outputs)
    for output, tensor in zip(problem.outputs, expected, strict=True):
        assert fits(call, tensor, output), output.name
    assert all(isinstance(dtype_of(output, call), torch.dtype) for output in problem.outputs)


@promise
def outputs_are_as_long_as_their_symbols_say_or_declared_to_vary(problem: Problem) -> None:
    """The judge makes room by the symbols alone, unless lengths vary."""
    size, world_size = SizeName.TINY, a_world_size(problem)
    for regime in () if problem.lengths_vary else problem.regimes_at(size, world_size):
        for rank in (0, world_size - 1):
            call = make_call(problem, size, world_size=world_size, rank=rank, regime=regime.largest())
            for output, tensor in zip(problem.outputs, load(problem.slug).expected(call), strict=True):
                assert tensor.numel() <= math.prod(call.shape(output.shape)), f"{output.name} in {regime.name}"


@promise
def tensors_differ_between_calls_and_between_ranks_unless_replicated(problem: Problem) -> None:
    make_inputs = load(problem.slug).make_inputs
    call = make_call(problem, SizeName.TINY, world_size=a_world_size(problem))
    here, peers = make_inputs(call), [make_inputs(call.at_rank(rank)) for rank in range(1, call.world_size)]
    later = make_inputs(make_call(problem, SizeName.TINY, world_size=call.world_size, index=1))
    for argument in problem.arguments:
        if argument.kind in TENSORS:
            name = argument.name
            assert not _equal(here[name], later[name]), name
            is_equal = [_equal(here[name], peer[name]) for peer in peers]
            assert is_equal == _expected_equal(argument, here, call.world_size), name


def _expected_equal(argument: Argument, here: Arguments, world_size: int) -> list[bool]:
    """For every other rank: does it receive what rank 0 receives?"""
    within = here[argument.shared_within] if argument.shared_within else 1
    members = within.ranks if isinstance(within, Group) else range(within)
    return [argument.replicated or rank in members for rank in range(1, world_size)]


@promise
def same_key_gives_the_same_inputs(problem: Problem) -> None:
    make_inputs = load(problem.slug).make_inputs
    call = make_call(problem, SizeName.TINY, world_size=a_world_size(problem))
    once, again = make_inputs(call), make_inputs(call)
    tensors = [argument.name for argument in problem.arguments if argument.kind in TENSORS]
    assert all(_equal(once[name], again[name]) for name in tensors)


def _equal(left: torch.Tensor | list[torch.Tensor], right: torch.Tensor | list[torch.Tensor]) -> bool:
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return left.shape == right.shape and torch.equal(left.to_dense(), right.to_dense())


@promise
def every_program_has_the_parameters_of_the_card(problem: Problem) -> None:
    implementation = load(problem.slug)
    assert tuple(inspect.signature(implementation.solution).parameters) == problem.parameter_names
    assert re.findall(r"[(,] *(\w+)(?=[:=,)])", problem.signature.split("->")[0]) == list(problem.parameter_names)
    for program in (*implementation.honest.values(), *implementation.mutants.values()):
        inspect.signature(program).bind(*problem.parameter_names)


@promise
def cost_is_positive_and_grows_no_less_than_the_wire_demands(problem: Problem) -> None:
    world_size = a_world_size(problem)
    for size in SizeName:
        _check_cost(problem, problem.cost(problem.dims(size, world_size), world_size, 2))


def _check_cost(problem: Problem, cost: Cost) -> None:
    assert cost.memory_bytes > 0
    assert 0 <= cost.wire_bytes <= cost.reference_wire_bytes
    assert cost.wire_bytes > 0 or ("no rank needs" in cost.note and problem.notes), "say why nothing has to travel"
    assert cost.wire_bytes == cost.reference_wire_bytes or cost.note, "say why less than the reference sends is enough"


@promise
def every_size_fits_a_gpu_with_room_to_work(problem: Problem) -> None:
    for world_size in (2, 4, 8):
        if problem.refuses_world_size(world_size) is None:
            for size in SizeName:
                dims = problem.dims(size, world_size)
                cost = problem.cost(dims, world_size, 2)
                assert max(cost.memory_bytes, held_bytes(problem, dims)) <= MOST_HELD_BYTES, (size, world_size)


@promise
def large_says_which_system_runs_it(problem: Problem) -> None:
    system = problem.sizes[SizeName.LARGE].system
    assert re.search(r"\d", system), "give the figures"
    assert re.search(r"[A-Z]", system), "name the system"


@promise
def reference_can_be_read_and_submitted_alone(problem: Problem) -> None:
    source = registry.reference_source(problem.slug)
    assert not re.search(r"^\s*(from|import) (problems|evaluator|portal)", source, re.MULTILINE)


@promise
def statement_describes_every_argument_and_output(problem: Problem) -> None:
    text = registry.statement(problem.slug)
    names = [*problem.parameter_names, *(output.name for output in problem.outputs)]
    assert [name for name in names if name not in text.replace("\\_", "_")] == []
    assert "$$" in text


@promise
def prose_is_short(problem: Problem) -> None:
    folder = registry.folder(problem.slug)
    assert long_parts(folder / "statement.md") == [], "at most 30 words a sentence, and 80 a paragraph"
    for path in sorted(folder.glob("*.py")):
        assert list(long_sentences(path)) == [], f"{path.name}: at most 40 words a sentence of a docstring"


@promise
def statement_says_how_inputs_differ_from_the_published_ones_where_there_are_any(problem: Problem) -> None:
    if problem.slug in CARDS:
        assert len(table.deviation(problem)) > 20
    else:
        assert table.deviation(problem) == "", (
            f"take the section {table.DEVIATION!r} out of {registry.folder(problem.slug).name}/statement.md: "
            "it is for the problems that were published, and this one has no published inputs"
        )


@promise
def tolerance_says_how_it_was_found(problem: Problem) -> None:
    for output in problem.outputs:
        calibration = output.tolerance.calibration
        assert output.tolerance.is_exact or ("ranks" in calibration and "honest" in calibration.lower())


@promise
def document_says_what_spec_and_statement_say(problem: Problem) -> None:
    document = table.TARGET.read_text(encoding="utf-8")
    assert table.outdated(problem, document) == [], f"docs/problems.md is out of date: run `{table.COMMAND}`"


@promise
def some_tested_world_size_runs(problem: Problem) -> None:
    assert any(problem.refuses_world_size(world_size) is None for world_size in TESTED_WORLD_SIZES)


@promise
def excused_mutants_exist_and_have_a_reason(problem: Problem) -> None:
    assert set(problem.mutants_not_applicable) <= set(generic(problem))
    assert all(len(reason) > 10 for reason in problem.mutants_not_applicable.values())


@promise
def every_tensor_argument_is_shown_to_matter(problem: Problem) -> None:
    stale = [name for name in generic(problem) if name.startswith("stale_argument:")]
    assert any(why_not_applicable(problem, name) is None for name in stale)


@promise
def every_narrow_program_belongs_to_a_regime(problem: Problem) -> None:
    assert set(load(problem.slug).narrow) <= {regime.name for regime in problem.regimes}


def test_every_card_belongs_to_a_problem():
    assert set(CARDS) <= {problem.slug for problem in registry.problems()}


def test_document_holds_the_problems_and_nothing_else():
    document = table.TARGET.read_text(encoding="utf-8")
    is_current = document == table.text(table.known(document))
    assert is_current, f"docs/problems.md is out of date: run `{table.COMMAND}`"
