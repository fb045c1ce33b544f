"""The one check of outputs: what of a returned value counts as them, and whether their structure and values are right.

The judge's oracle ranks and the problems' own tests use it. In a rank, evaluator/arena/loaded_call.py collects outputs.
It may import nothing of ours, so a test holds it and `collected` alike.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from problems.inputs.values import Call
from problems.outputs.comparison import Comparison, compare_output
from problems.outputs.sums import MOST_ELEMENTS, within_rounding
from problems.spec.schema import Output, Problem


def collected(problem: Problem, returned: Any, written: Sequence[Any]) -> list[Any]:
    """The outputs in the order of the spec, out of what a program returned and what it wrote into.

    `written` has one entry per output: None where the output is returned, else what held it before the call. Where the
    number returned is wrong, what was returned comes first, then what was written.
    """
    values = _returned(problem, returned)
    count = sum(output.argument is None for output in problem.outputs)
    if count == 0 and returned is None:
        values = []
    if len(values) != count:
        return [*values, *(item for item in written if item is not None)]
    rest = iter(values)
    outputs = [next(rest) if item is None else item for item in written]
    return [joined(value) if output.is_list else value for output, value in zip(problem.outputs, outputs, strict=True)]


def _returned(problem: Problem, value: Any) -> list[Any]:
    """What was returned as a list, without the None that the problem expects."""
    names = [output.name for output in problem.outputs]
    if _is_sequence(value):
        listed = list(value)
    elif isinstance(value, dict):
        listed = [value[name] for name in names if name in value] + [value[key] for key in value if key not in names]
    else:
        listed = [value]
    kept = [item for index, item in enumerate(listed) if index not in problem.nothing_at or item is not None]
    return [torch.tensor(item, dtype=torch.int64) if _are_integers(item) else item for item in kept]


def _is_sequence(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and type(value) is not torch.Size


def _are_integers(value: Any) -> bool:
    if _is_sequence(value):
        return bool(value) and all(type(item) is int for item in value)
    return type(value) is torch.Size


def joined(value: Any) -> Any:
    """A list or tuple of tensors of one shape, dtype and device as their stack; anything else as it is."""
    if not isinstance(value, (list, tuple)) or not value or not all(map(_is_plain, value)):
        return value
    return torch.stack(tuple(value)) if len({(item.shape, item.dtype, item.device) for item in value}) == 1 else value


def _is_plain(value: Any) -> bool:
    """Whether it counts as a tensor; a subclass and a sparse one do not."""
    return type(value) in (Tensor, torch.nn.Parameter) and value.layout is torch.strided


def form_of(value: Any) -> dict[str, Any]:
    """What an output is, as ranks describe it to the judge: a tensor's dtype, shape, device and layout, or its type."""
    if not _is_plain(value):
        return {"other": type(value).__name__}
    return {
        "dtype": str(value.dtype).removeprefix("torch."),
        "shape": list(value.shape),
        "device": value.device.type,
        "is_contiguous": value.is_contiguous(),
    }


def wrong_number(problem: Problem, received: int) -> str | None:
    """What is wrong where `received` outputs came; None where it is as many as the problem has."""
    if received == len(problem.outputs):
        return None
    names = ", ".join(output.name for output in problem.outputs)
    return f"expected {len(problem.outputs)} output(s) ({names}), received {received}"


def wrong_form(call: Call, output: Output, form: Mapping[str, Any], right: Tensor) -> str | None:
    """What is wrong with an output of this `form`, where `right` is expected; None where nothing is."""
    if "other" in form:
        wanted = f"a list of {right.shape[0]} tensors of one shape and dtype" if output.is_list else "a tensor"
        return f"output {output.name!r} is a {form['other']}, expected {wanted}"
    dtype = str(dtype_of(output, call)).removeprefix("torch.")
    wanted = f"{dtype}{list(right.shape)} on {'cpu' if output.on_host else call.device.type}"
    received = f"{form['dtype']}{form['shape']} on {form['device']}"
    if received != wanted:
        return f"output {output.name!r} is {received}, expected {wanted}"
    if output.layout == "contiguous" and not form["is_contiguous"]:
        return f"output {output.name!r} is not contiguous, as the statement asks: return its .contiguous()"
    return None


def dtype_of(output: Output, call: Call) -> torch.dtype:
    """The torch dtype that `output` has in `call`."""
    dtype: torch.dtype = call.dtype if output.dtype == "input" else getattr(torch, output.dtype)
    return dtype


def compared(
    problem: Problem, oracle: ModuleType, call: Call, actual: Sequence[Tensor], expected: Sequence[Tensor]
) -> tuple[Comparison, ...]:
    """How every output's values compare: by the oracle's own `compare` where it has one, else by the tolerances.

    Where an oracle has `addends`, its one output is a sum over ranks, which has a second bound.
    """
    own = getattr(oracle, "compare", None)
    if own is not None:
        return tuple(own(call, tuple(actual), tuple(expected)))
    outputs = problem.outputs_in(call.regime)
    found = [compare_output(*triple) for triple in zip(outputs, actual, expected, strict=True)]
    addends = getattr(oracle, "addends", None)
    if addends is not None and len(found) == 1 and found[0].passed and not outputs[0].tolerance.is_exact:
        found = [within_rounding_of(call, addends, found[0], actual[0], expected[0], roundings=oracle.ROUNDINGS)]
    return tuple(found)


def within_rounding_of(
    call: Call,
    addends: Callable[[Call], Iterator[Tensor]],
    found: Comparison,
    actual: Tensor,
    expected: Tensor,
    *,
    roundings: int,
) -> Comparison:
    """`found` by the bound on sums too (`problems.outputs.sums`); `addends` yields what each rank adds."""
    if (spare := expected.numel() - MOST_ELEMENTS) > 0:
        if call.world_size + roundings > 2:
            return found
        # A secret part of it: the whole in float64 may be more than a device has room for.
        part = slice(start := secrets.randbelow(spare), start + MOST_ELEMENTS)
        actual, expected = actual.reshape(-1)[part], expected.reshape(-1)[part]
    return within_rounding(
        found, actual, expected, addends=addends(call), world_size=call.world_size, roundings=roundings
    )
