"""Programs made from a problem's own reference and oracle: wrong ones that must be refused, and honest sums.

Each generic mutant is a function of an implementation and a call that gives the outputs a cheating or broken
program would hand in on this rank. Every rank runs the same mutant at once, because most still communicate.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.distributed as dist
from torch import Tensor

from problems.harness.implementation import Implementation, Outputs
from problems.harness.wiretap import Group, Tap, tapped
from problems.inputs.values import Call
from problems.outputs.checking import dtype_of, joined
from problems.spec.schema import Argument, ArgumentKind, Output, Placement, Problem
from problems.spec.taxonomy import Communication

Mutant = Callable[[Implementation, Call], Outputs]

STALE_ARGUMENT = "stale_argument:"
"""Prefix of the mutants that take one argument, named after the colon, from another call."""

_SHARDED = {
    Communication.ALL_GATHER,
    Communication.REDUCE_SCATTER,
    Communication.ALL_TO_ALL,
    Communication.ALL_TO_ALL_V,
    Communication.SCATTER,
    Communication.GATHER,
}


def _another(call: Call) -> Call:
    """A different call of the same evaluation."""
    return replace(call, index=call.index + 1)


def _another_of_same_roots(implementation: Implementation, call: Call) -> Call:
    """A different call in which every rank's arguments have the shapes that they have in this one.

    Only arguments that look different on the root of a collective can differ in shape; all ranks find the same call.
    """
    other = _another(call)
    if any(argument.shape_elsewhere is not None for argument in implementation.problem.arguments):
        while _shapes(implementation, other) != _shapes(implementation, call):
            other = _another(other)
    return other


def _shapes(implementation: Implementation, call: Call) -> list[list[torch.Size]]:
    """The shapes of the tensor arguments of every rank."""
    ranks = [implementation.make_inputs(call.at_rank(rank)) for rank in range(call.world_size)]
    return [[value.shape for value in arguments.values() if isinstance(value, Tensor)] for arguments in ranks]


def _expected_output(implementation: Implementation, call: Call) -> Outputs:
    """The right outputs in the dtypes that a program must return."""
    expected = implementation.expected(call)
    outputs = zip(implementation.problem.outputs, expected, strict=True)
    return tuple(tensor.to(dtype_of(output, call)) for output, tensor in outputs)


def zeros(implementation: Implementation, call: Call) -> Outputs:
    """Zeros everywhere."""
    return tuple(torch.zeros_like(tensor) for tensor in _expected_output(implementation, call))


def constant(implementation: Implementation, call: Call) -> Outputs:
    """One number everywhere: the mean of what another call's output was, the best that one can guess."""
    guessed = _expected_output(implementation, _another(call))
    expected = _expected_output(implementation, call)
    return tuple(torch.full_like(tensor, _mean(guess)) for tensor, guess in zip(expected, guessed, strict=True))


def _mean(tensor: Tensor) -> float:
    if tensor.is_floating_point():
        tensor = tensor.float()  # few operations exist on 8-bit floats
    finite = tensor[tensor.isfinite()] if tensor.is_floating_point() else tensor
    mean = float(finite.double().mean()) if finite.numel() else 0.0
    return mean if tensor.is_floating_point() else round(mean)


def passthrough(implementation: Implementation, call: Call) -> Outputs:
    """An argument handed back wherever it has an output's shape and dtype; the reference's output elsewhere."""
    problem = implementation.problem
    outputs = implementation.run(implementation.solution, call)
    arguments = implementation.make_inputs(call)
    sources = [_like(problem, output) for output in problem.outputs]
    return tuple(
        output if source is None else arguments[source.name] for output, source in zip(outputs, sources, strict=True)
    )


def _like(problem: Problem, output: Output) -> Argument | None:
    """The first tensor argument with the shape and dtype of `output`."""
    for argument in problem.arguments:
        is_tensor = argument.kind is ArgumentKind.TENSOR
        if is_tensor and argument.shape == output.shape and argument.dtype == output.dtype:
            return argument
    return None


def no_update(implementation: Implementation, call: Call) -> Outputs:
    """Mutable arguments left as they were, everything returned computed rightly."""
    outputs = implementation.run(implementation.solution, call)
    untouched = implementation.make_inputs(call)
    return tuple(
        tensor if output.argument is None else joined(output.written_in(untouched))
        for output, tensor in zip(implementation.problem.outputs, outputs, strict=True)
    )


def _through(tap: Tap) -> Mutant:
    """The reference with its collectives tapped."""

    def mutant(implementation: Implementation, call: Call) -> Outputs:
        with tapped(tap):
            return implementation.run(implementation.solution, call)

    return mutant


def _without_last(tensor: Tensor, group: Group) -> Tensor:
    """What the last rank of a group sends when its share is dropped."""
    is_last = dist.get_rank(group) == dist.get_world_size(group) - 1
    return torch.zeros_like(tensor) if is_last else tensor


def _rotated(count: int) -> list[int]:
    """Every shard one index further."""
    return [(place - 1) % count for place in range(count)]


def _squeeze(tensor: Tensor, *, largest: float, round_to: Callable[[Tensor], Tensor]) -> Tensor:
    """A floating payload through an 8-bit format with one scale per row, back in its own dtype."""
    if not tensor.is_floating_point() or tensor.element_size() < 2 or tensor.numel() == 0:
        return tensor
    wide = tensor.float()
    finite = wide.where(wide.isfinite(), 0.0)
    peak = finite.abs().amax(dim=-1, keepdim=True) if wide.dim() else finite.abs()
    scale = torch.where(peak > 0, peak / largest, 1.0)
    return torch.where(wide.isfinite(), round_to(finite / scale) * scale, wide).to(tensor.dtype)


def _to_int8(tensor: Tensor, _group: Group) -> Tensor:
    return _squeeze(tensor, largest=127.0, round_to=torch.round)


def _to_float8(tensor: Tensor, _group: Group) -> Tensor:
    return _squeeze(tensor, largest=448.0, round_to=lambda values: values.to(torch.float8_e4m3fn).float())


def stale_output(implementation: Implementation, call: Call) -> Outputs:
    """What was right for another call."""
    return implementation.run(implementation.solution, _another(call))


def peer_output(implementation: Implementation, call: Call) -> Outputs:
    """The next rank's expected output."""
    return _expected_output(implementation, call.at_rank((call.rank + 1) % call.world_size))


def _stale_argument(name: str) -> Mutant:
    """The reference with the argument `name` of another call: passes only where that argument does not matter."""

    def mutant(implementation: Implementation, call: Call) -> Outputs:
        arguments = implementation.make_inputs(call)
        arguments[name] = implementation.make_inputs(_another_of_same_roots(implementation, call))[name]
        return implementation.run_with(implementation.solution, arguments)

    return mutant


_GENERIC: dict[str, Mutant] = {
    "zeros": zeros,
    "constant": constant,
    "passthrough": passthrough,
    "no_update": no_update,
    "no_communication": _through(Tap(is_connected=False)),
    "last_rank_skipped": _through(Tap(payload=_without_last)),
    "shards_wrong_order": _through(Tap(order=_rotated)),
    "stale_output": stale_output,
    "peer_output": peer_output,
    "squeezed_int8": _through(Tap(payload=_to_int8)),
    "squeezed_float8": _through(Tap(payload=_to_float8)),
}


_BLOCK, _EXPONENTS = 128, 8


def _wire(bits: int) -> Mutant:
    """The reference with payloads in `bits` bits an element."""
    return _through(Tap(payload=lambda tensor, _: _narrowed(tensor, mantissa_bits=bits - 4)))


def _narrowed(tensor: Tensor, *, mantissa_bits: int) -> Tensor:
    """A floating payload in sign, 3 bits of exponent and a mantissa, with one exponent in common per 128 elements."""
    if not tensor.is_floating_point() or tensor.element_size() < 2 or tensor.numel() == 0:
        return tensor
    flat = tensor.float().reshape(-1)
    padded = torch.nn.functional.pad(flat, (0, -len(flat) % _BLOCK)).view(-1, _BLOCK)
    top = padded.abs().amax(dim=1, keepdim=True).clamp(min=1e-30).log2().floor()
    exponent = padded.abs().clamp(min=1e-30).log2().floor().clamp(min=top - (_EXPONENTS - 1), max=top)
    step = (exponent - mantissa_bits).exp2()
    rounded = ((padded / step).round() * step).view(-1)[: len(flat)].view(tensor.shape)
    return torch.where(tensor.isfinite(), rounded, tensor.float()).to(tensor.dtype)


def _without_tiny(tensor: Tensor, _group: Group) -> Tensor:
    return tensor.where(tensor.abs() >= _TINY, 0) if _is_wide(tensor) else tensor


def _in_six_bit_exponents(tensor: Tensor, _group: Group) -> Tensor:
    """A payload whose elements have one of 64 exponents; zero, what is subnormal and what is not finite stay."""
    if not _is_wide(tensor):
        return tensor
    wide = tensor.double()
    is_normal = wide.isfinite() & (wide.abs() >= torch.finfo(tensor.dtype).tiny)
    return torch.where(is_normal, wide.sign() * wide.abs().clamp(2.0**-40, 2.0**24), wide).to(tensor.dtype)


def _by_largest(tensor: Tensor, _group: Group) -> Tensor:
    """A payload divided by its largest element and multiplied again, which is no number where all are zero."""
    if not _is_wide(tensor) or tensor.numel() == 0:
        return tensor
    # A payload that is padded has anything in its padding, infinity and NaN too.
    largest = tensor.double().abs().nan_to_num(nan=0.0, posinf=0.0).max()
    return (tensor.double() / largest * largest).to(tensor.dtype)


def _is_wide(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.element_size() >= 2


def _nothing_where(has_none: Callable[[Tensor], Tensor]) -> Mutant:
    """The reference's outputs, and zeros on a rank one of whose own tensors `has_none`."""

    def program(implementation: Implementation, call: Call) -> Outputs:
        outputs = implementation.run(implementation.solution, call)
        is_empty = any(bool(has_none(tensor)) for tensor in _own_tensors(implementation, call))
        return tuple(map(torch.zeros_like, outputs)) if is_empty else outputs

    return program


def _own_tensors(implementation: Implementation, call: Call) -> list[Tensor]:
    """The rank's arguments that are tensors of real or complex numbers, with those in lists."""
    values = implementation.make_inputs(call).values()
    own = [item for value in values for item in (value if isinstance(value, list) else [value])]
    numbers = [item for item in own if isinstance(item, Tensor) and item.numel()]
    return [item for item in numbers if item.is_floating_point() or item.is_complex()]


def _nothing_where_a_part_is_plain(implementation: Implementation, call: Call) -> Outputs:
    """The reference's outputs, and zeros on a rank one of whose tensors has a plain part, unlike in a usual call."""
    outputs = implementation.run(implementation.solution, call)
    given, usual = (_own_tensors(implementation, each) for each in (call, replace(call, regime=None)))
    is_plain = any(
        _has_plain_part(one) and not _has_plain_part(other) for one, other in zip(given, usual, strict=False)
    )
    return tuple(map(torch.zeros_like, outputs)) if is_plain else outputs


def _has_plain_part(tensor: Tensor) -> bool:
    """Whether a row or column, along any dimension, holds one number alone; of a vector, whether an element is zero."""
    dense = tensor.to_dense()
    if dense.dim() < 2:
        return bool((dense == 0).any())
    parts = (dense.transpose(0, dimension).flatten(1) for dimension in range(dense.dim()))
    return any(bool((part == part[:, :1]).all(dim=1).any()) for part in parts if part.shape[1] > 1)


def _no_number_from_infinity(implementation: Implementation, call: Call) -> Outputs:
    """The reference's outputs, and no numbers on a rank one of whose own tensors holds an infinity: 0 times it."""
    outputs = implementation.run(implementation.solution, call)
    values = implementation.make_inputs(call).values()
    is_infinite = any(isinstance(value, Tensor) and bool(value.isinf().any()) for value in values)
    return tuple(torch.full_like(output, torch.nan) for output in outputs) if is_infinite else outputs


def _usual_numbers(implementation: Implementation, call: Call) -> Outputs:
    """The reference with every argument that is no tensor as in a call like the timed ones."""
    arguments = implementation.make_inputs(call)
    usual = implementation.make_inputs(replace(call, regime=None))
    kinds = (ArgumentKind.INTEGER, ArgumentKind.REAL, ArgumentKind.BOOLEAN, ArgumentKind.TEXT, ArgumentKind.INTEGERS)
    arguments |= {item.name: usual[item.name] for item in implementation.problem.arguments if item.kind in kinds}
    return implementation.run_with(implementation.solution, arguments)


def _arguments_in_float16(implementation: Implementation, call: Call) -> Outputs:
    """The reference with every tensor of its arguments rounded to float16."""
    arguments = implementation.make_inputs(call)
    for name, value in arguments.items():
        if isinstance(value, Tensor) and _is_wide(value):
            arguments[name] = value.half().to(value.dtype)
    return implementation.run_with(implementation.solution, arguments)


def _arguments_by_largest(implementation: Implementation, call: Call) -> Outputs:
    """The reference with every tensor of its arguments divided by its largest element and multiplied again."""
    arguments = implementation.make_inputs(call)
    for name, value in arguments.items():
        if isinstance(value, Tensor):
            arguments[name] = _by_largest(value, None)
    return implementation.run_with(implementation.solution, arguments)


def _nothing_where_a_number_is_zero(implementation: Implementation, call: Call) -> Outputs:
    """The reference's outputs, and zeros where a number among the arguments is zero, as its logarithm may be taken."""
    outputs = implementation.run(implementation.solution, call)
    numbers = [value for value in implementation.make_inputs(call).values() if isinstance(value, float)]
    return outputs if all(numbers) else tuple(map(torch.zeros_like, outputs))


def _tail_left_out(implementation: Implementation, call: Call) -> Outputs:
    """The reference's outputs without their last columns, where extents are not those of calls like the timed ones."""
    outputs = implementation.run(implementation.solution, call)
    if call.regime is not None and call.regime.dims:
        for output in outputs:
            output[..., -1:] = 0
    return outputs


_TINY = 2.0**-13

NARROW: dict[str, Mutant] = {
    "drops_what_is_tiny": _through(Tap(payload=_without_tiny)),
    "in_float16": _through(
        Tap(payload=lambda tensor, _: tensor.half().to(tensor.dtype) if _is_wide(tensor) else tensor)
    ),
    "drops_below_1e_6": _through(
        Tap(payload=lambda tensor, _: tensor.where(tensor.abs() >= 1e-6, 0) if _is_wide(tensor) else tensor)
    ),
    "saturates_at_65536": _through(
        Tap(payload=lambda tensor, _: tensor.clamp(-65536, 65536) if _is_wide(tensor) else tensor)
    ),
    "six_bit_exponents": _through(Tap(payload=_in_six_bit_exponents)),
    "divides_by_the_largest": _through(Tap(payload=_by_largest)),
    "nothing_where_zero": _nothing_where(lambda tensor: ~tensor.any()),
    "nothing_where_sums_are_zero": _nothing_where(lambda tensor: tensor.sum(dtype=torch.complex128) == 0),
    "nothing_where_a_part_is_plain": _nothing_where_a_part_is_plain,
    "no_number_from_infinity": _no_number_from_infinity,
    "clears_what_is_not_finite": _through(
        Tap(payload=lambda tensor, _: tensor.nan_to_num() if _is_wide(tensor) else tensor)
    ),
    **{f"{bits}_bit_wire": _wire(bits) for bits in range(8, 15)},
    "ten_bit_wire": _wire(10),
    "eleven_bit_wire": _wire(11),
    "usual_numbers": _usual_numbers,
    "arguments_in_float16": _arguments_in_float16,
    "divides_arguments_by_the_largest": _arguments_by_largest,
    "nothing_where_a_number_is_zero": _nothing_where_a_number_is_zero,
    "tail_left_out": _tail_left_out,
}
"""Programs that are right in calls like the timed ones, and wrong in the regimes that name them."""


def _added(*, is_wide: bool) -> Mutant:
    """The reference, whose collectives add ranks' parts one after the other in an order drawn by the rank.

    Every partial sum is rounded to the payload's dtype; with `is_wide` only the last one is.
    """

    def program(implementation: Implementation, call: Call) -> Outputs:
        generator = torch.Generator().manual_seed(call.index * call.world_size + call.rank)

        def total(parts: list[Tensor]) -> Tensor:
            wide = torch.float64 if parts[0].element_size() >= 4 else torch.float32
            order = torch.randperm(len(parts), generator=generator).tolist()
            added: Tensor
            added, *others = (parts[rank].to(wide) if is_wide else parts[rank] for rank in order)
            for part in others:
                added = added + part
            return added.to(parts[0].dtype)

        return _through(Tap(total=total))(implementation, call)

    return program


ORDERS: dict[str, Mutant] = {
    "any_order": _added(is_wide=False),
    "any_order_wide": _added(is_wide=True),
}
"""Honest programs made from the reference: sums over ranks in a drawn order, rounded at every step or once."""


def adds(problem: Problem) -> bool:
    """Whether a collective of the reference adds what ranks send."""
    return bool(
        {Communication.ALL_REDUCE, Communication.REDUCE_SCATTER, Communication.REDUCE} & set(problem.communication)
    )


def generic(problem: Problem) -> dict[str, Mutant]:
    """Every generic mutant of `problem` by name, whether it applies or not."""
    with_tensors = (ArgumentKind.TENSOR, ArgumentKind.TENSORS, ArgumentKind.SPARSE, ArgumentKind.MODULE)
    tensors = [argument.name for argument in problem.arguments if argument.kind in with_tensors]
    return _GENERIC | {f"{STALE_ARGUMENT}{name}": _stale_argument(name) for name in tensors}


def why_not_applicable(problem: Problem, mutant: str) -> str | None:
    """Why the generic mutant `mutant` says nothing about `problem`; None where it must fail.

    Reasons that follow from the spec's own data need no entry in `mutants_not_applicable`.
    """
    return _structural_reason(problem, mutant) or problem.mutants_not_applicable.get(mutant)


def _structural_reason(problem: Problem, mutant: str) -> str | None:
    if mutant == "passthrough" and not any(_like(problem, output) for output in problem.outputs):
        return "no argument has the shape and dtype of an output"
    if mutant == "no_update" and not any(argument.mutable for argument in problem.arguments):
        return "no argument is mutable"
    if mutant == "shards_wrong_order" and not _SHARDED & set(problem.communication):
        return "no collective carries one shard per rank"
    if mutant == "peer_output" and all(output.placement is Placement.REPLICATED for output in problem.outputs):
        return "every output is the same on all ranks"
    return None
