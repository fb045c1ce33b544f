"""Placeholders for a submission's arguments, from the problem's spec: shapes and plain values, no tensor values."""

import ast
from collections.abc import Mapping
from typing import Any

from problems.spec.schema import Argument, ArgumentKind, Problem, SizeName

_PLAIN = (ArgumentKind.INTEGER, ArgumentKind.REAL, ArgumentKind.BOOLEAN, ArgumentKind.TEXT)

Placeholder = dict[str, Any]
"""One argument as JSON: {"shape", "dtype"}, {"group": true} or {"value"}."""


def placeholders(problem: Problem, size: str, *, world_size: int, dtype: str) -> list[Placeholder] | None:
    """One placeholder per parameter; None where input values decide a shape or a value, or a module is passed."""
    dims = problem.dims(SizeName(size), world_size)
    defaults = _defaults(problem.signature)
    found = [_placeholder(argument, dims=dims, defaults=defaults, dtype=dtype) for argument in problem.arguments]
    return [item for item in found if item is not None] if None not in found else None


def _placeholder(
    argument: Argument, *, dims: Mapping[str, int], defaults: Mapping[str, Any], dtype: str
) -> Placeholder | None:
    if argument.kind is ArgumentKind.TENSOR:
        shape = [dims.get(side) if isinstance(side, str) else side for side in argument.shape]
        if None in shape:
            return None
        return {"shape": shape, "dtype": dtype if argument.dtype == "input" else argument.dtype}
    if argument.kind is ArgumentKind.GROUP:
        return {"group": True}
    if argument.kind is ArgumentKind.NONE:
        return {"value": None}
    known: dict[str, Any] = {**defaults, **dims}
    if argument.kind is ArgumentKind.REAL:
        # A real number is a float32 argument of a kernel, whatever its value.
        known.setdefault(argument.name, 0.5)
    return {"value": known[argument.name]} if argument.kind in _PLAIN and argument.name in known else None


def _defaults(signature: str) -> dict[str, Any]:
    """Defaults of parameters as a signature such as `solution(x, eps=1e-6)` writes them, where they are plain."""
    try:
        (definition,) = ast.parse(f"def {signature.removeprefix('def ').rstrip(':')}: ...").body
    except SyntaxError:
        return {}
    assert isinstance(definition, ast.FunctionDef)
    names = [parameter.arg for parameter in definition.args.args]
    pairs = zip(names[len(names) - len(definition.args.defaults) :], definition.args.defaults, strict=True)
    return {name: node.value for name, node in pairs if isinstance(node, ast.Constant)}
