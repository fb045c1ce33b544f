"""Wrong programs of a problem, made mechanically: one change each of its reference, or of an honest variant.

Four families, each with a share of a problem's programs:

- `core/*`: operators of cosmic-ray on the reference (comparisons, conditions, numbers, arithmetic, loops), and as
  `honest/*` on honest variants.
- `code/*`: drop or swap a term, an argument, a flag, a statement, a condition, a rank, a dtype or an index, in both.
- `value/*`: one argument or result is another one, everywhere, on one rank, or where a condition holds. Such changes
  exist for every problem, also where the reference is one library call.
"""

import ast
import inspect
import random
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

from problems import registry
from problems.harness.implementation import load
from problems.spec.schema import ArgumentKind, Problem
from tools.bench.faults import OPERATORS
from tools.bench.wrong_programs import Program

SHARES = {"core": 30, "honest": 10, "code": 16, "value": 24}
"""At most so many programs of a problem are of each family."""

_SWAPPED = (ast.Sub, ast.Div, ast.MatMult, ast.FloorDiv, ast.Mod, ast.Pow)
_DTYPES = {"float32": "bfloat16", "bfloat16": "float32", "float64": "float32", "int64": "int32", "float": "bfloat16"}

_ANY = {
    "value/rank_first": "v * 0 if rank == 0 else v",
    "value/rank_last": "v * 0 if rank == ranks - 1 else v",
    "value/index_first": "torch.cat([v.flatten()[:1] * 0, v.flatten()[1:]]).view(v.shape)",
    "value/index_last": "torch.cat([v.flatten()[:-1], v.flatten()[-1:] * 0]).view(v.shape)",
    "value/index_last_row": "torch.cat([v[:-1], v[-1:] * 0]) if v.dim() else v",
    "value/index_last_column": "torch.cat([v[..., :-1], v[..., -1:] * 0], -1) if v.dim() else v",
    "value/index_backwards": "v.flip(0) if v.dim() else v",
    "value/index_rolled": "v.roll(1, -1) if v.dim() else v",
    "value/index_first_rows": "torch.cat([v[1:2], v[:1], v[2:]]) if v.dim() else v",
    "value/condition_odd": "v * 0 if v.dim() and v.shape[0] % 2 else v",
    "value/condition_one_row": "v * 0 if v.dim() and v.shape[0] == 1 else v",
    "value/condition_wide": "v * 0 if v.dim() > 1 and v.shape[0] < v.shape[1] else v",
    "value/condition_all_equal": "v + 1 if v.numel() and bool((v == v.flatten()[0]).all()) else v",
}
_NUMBERS = {
    "value/constant": "v * 1.25",
    "value/term_positive": "v.clamp(min=0)",
    "value/term_within_3": "v.clamp(-3, 3)",
    "value/term_within_100": "v.clamp(-100, 100)",
    "value/term_small": "torch.where(v.abs() < 2**-10, 0 * v, v)",
    "value/condition_large": "v / 2 if v.numel() and bool(v.abs().max() > 64) else v",
    "value/condition_tiny": "v * 2 if v.numel() and bool(v.abs().max() < 2**-10) else v",
    "value/condition_mean": "v * 0 if v.numel() and bool(v.float().mean() > 0.5) else v",
    "value/dtype_float8": "v.to(torch.float8_e4m3fn).to(v.dtype)",
    "value/dtype_float16": "v.to(torch.float16).to(v.dtype)",
}
_WHOLE = {"value/constant": "v + 1", "value/term_within_3": "v.clamp(max=3)", "value/condition_large": "v % 64"}
_SCALARS = {
    ArgumentKind.INTEGER: {"value/number_more": "v + 1", "value/number_two": "min(v, 2)", "value/number_zero": "0"},
    ArgumentKind.REAL: {"value/number_more": "v * 1.25", "value/number_one": "1.0", "value/number_zero": "0.0"},
    ArgumentKind.BOOLEAN: {"value/flag_other": "not v", "value/flag_true": "True", "value/flag_false": "False"},
    ArgumentKind.GROUP: {"value/group_world": "None"},
    ArgumentKind.TENSORS: {"value/list_backwards": "v[::-1]"},
}


def made(slug: str, seed: int) -> list[Program]:
    """The changed programs of a problem: of each family its share, drawn by the seed; no text twice."""
    found, texts = [], set[str]()
    for family, share in SHARES.items():
        possible = list(_FAMILIES[family](slug))
        random.Random(f"{seed}/{slug}").shuffle(possible)
        taken = 0
        for operator, place, source, change in possible:
            if taken == share:
                break
            changed = change()
            if changed not in texts and _compiles(changed):
                before, after = _lines(source, changed)
                taken += before != after
                texts.add(changed)
                found.append(
                    Program(slug=slug, operator=operator, place=place, before=before, after=after, source=changed)
                )
    return found


Made = Iterator[tuple[str, str, str, Callable[[], str]]]
"""Operator, place, the program before the change, and what makes it after."""


def _lines(source: str, changed: str) -> tuple[str, str]:
    """The first line that differs; of an added ending its last but one."""
    if changed.splitlines()[-1].startswith("    return ") and "def made(" in changed:
        return "", changed.splitlines()[-1].partition("# ")[2]
    pairs = zip(source.splitlines(), changed.splitlines(), strict=False)
    return next(((old.strip(), new.strip()) for old, new in pairs if old != new), ("", changed.splitlines()[-1]))


def _compiles(source: str) -> bool:
    try:
        compile(source, "changed", "exec")
    except SyntaxError:
        return False
    return True


def _core(slug: str) -> Made:
    source = registry.reference_source(slug)
    for operator, occurrence, _ in _occurrences(registry.folder(slug) / "reference.py"):
        yield operator, str(occurrence), source, partial(_mutated, source, operator, occurrence, "")


def _mutated(source: str, operator: str, occurrence: int, ending: str) -> str:
    return (mutate_code(source, get_operator(operator)(), occurrence) or source) + ending


@cache
def _occurrences(path: Path) -> list[tuple[str, int, int]]:
    """Every change of a file by cosmic-ray: an operator, which of its occurrences, and its line."""
    tree, found = get_ast_from_path(path), []
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        places = [start for node in ast_nodes(tree) for start, _ in operator.mutation_positions(node)]
        found += [(f"core/{name}", occurrence, start[0]) for occurrence, start in enumerate(places)]
    return found


def _variants(slug: str) -> Iterator[tuple[str, Path, range]]:
    """Honest variants that are functions of a module: name, file and lines."""
    for name, program in load(slug).honest.items():
        if inspect.isfunction(program):
            lines, first = inspect.getsourcelines(program)
            yield name, Path(inspect.getfile(program)), range(first, first + len(lines))


def _ending(slug: str, name: str) -> str:
    # Some variants call the reference by its name, `solution`.
    return f"\n\nprogram = {load(slug).honest[name].__name__}\n"


def _honest(slug: str) -> Made:
    for name, path, lines in _variants(slug):
        source = path.read_text(encoding="utf-8")
        for operator, occurrence, line in _occurrences(path):
            if line in lines:
                change = partial(_mutated, source, operator, occurrence, _ending(slug, name))
                yield operator.replace("core", "honest"), f"{name}:{occurrence}", source, change


def _code(slug: str) -> Made:
    reference = registry.folder(slug) / "reference.py"
    everything = range(1, reference.read_text(encoding="utf-8").count("\n") + 2)
    for name, path, lines in [("reference", reference, everything), *_variants(slug)]:
        source = path.read_text(encoding="utf-8")
        ending = "" if name == "reference" else _ending(slug, name)
        for index, (operator, node, text) in enumerate(_edits(source, lines)):
            yield f"code/{operator}", f"{name}:{index}", source, partial(_edited, source, node, text, ending)


def _edited(source: str, node: ast.expr | ast.stmt, text: str, ending: str) -> str:
    """`source` with `text` in place of `node`; columns of the tree count bytes."""
    lines = source.encode().splitlines(keepends=True)
    starts = [sum(map(len, lines[:index])) for index in range(len(lines))]
    first = starts[node.lineno - 1] + node.col_offset
    last = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
    whole = source.encode()
    return (whole[:first] + text.encode() + whole[last:]).decode() + ending


def _edits(source: str, lines: range) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """Every change of code in bodies of functions on `lines`: the operator, what it replaces, and by what."""
    seen = set[int]()
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef) and function.lineno in lines:
            for node in (each for statement in function.body for each in ast.walk(statement)):
                if id(node) not in seen and isinstance(node, (ast.expr, ast.stmt)):
                    seen.add(id(node))
                    yield from ((operator, place, text) for operator, place, text in _of(node))


def _of(node: ast.expr | ast.stmt) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:  # noqa: C901, PLR0912 - a table
    text = ast.unparse
    match node:
        case ast.BinOp(left=left, right=right):
            yield "term_dropped", node, f"({text(left)})"
            yield "term_dropped", node, f"({text(right)})"
            if isinstance(node.op, _SWAPPED):
                yield "term_swapped", node, f"({text(ast.BinOp(left=right, op=node.op, right=left))})"
        case ast.AugAssign() | ast.Expr(value=ast.Call()):
            yield "statement_dropped", node, "pass"
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            yield "condition_true", test, "True"
            yield "condition_false", test, "False"
        case ast.Call(func=function, args=arguments, keywords=keywords):
            name = text(function).rpartition(".")[2]
            if name == "get_rank":
                yield "rank_zero", node, "0"
                yield "rank_other", node, f"(dist.get_world_size() - 1 - {text(node)})"
            elif name == "get_world_size":
                yield "rank_count", node, "2"
                yield "rank_count", node, f"({text(node)} - 1)"
            elif name == "float":
                yield "dtype", function, text(function).removesuffix("float") + "bfloat16"
            elif isinstance(function, ast.Attribute):
                is_module = text(function.value).split(".")[0] in ("torch", "dist", "functional")
                kept = arguments[:1] if is_module else [function.value]
                yield from (("call_dropped", node, f"({text(value)})") for value in kept)
            if len(arguments) > 1:
                swapped = ast.Call(func=function, args=[arguments[1], arguments[0], *arguments[2:]], keywords=keywords)
                yield "arguments_swapped", node, text(swapped)
            for keyword in keywords:
                others = [each for each in keywords if each is not keyword]
                yield "flag_dropped", node, text(ast.Call(func=function, args=arguments, keywords=others))
        case ast.Attribute(value=ast.Name(id="torch"), attr=name) if name in _DTYPES:
            yield "dtype", node, f"torch.{_DTYPES[name]}"
        case ast.Subscript(slice=ast.Slice() as part, value=value, ctx=ast.Load()):
            for name in ("lower", "upper", "step"):
                if getattr(part, name) is not None:
                    kept = {each: getattr(part, each) for each in ("lower", "upper", "step") if each != name}
                    yield "index_open", node, text(ast.Subscript(value=value, slice=ast.Slice(**kept), ctx=node.ctx))
        case ast.Subscript(slice=ast.Name() | ast.BinOp(), value=value, ctx=ast.Load()):
            yield "index_zero", node, f"{text(value)}[0]"


def _value(slug: str) -> Made:
    problem, source = registry.get(slug), registry.reference_source(slug)
    (solution,) = (
        node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == "solution"
    )
    parameters = [argument.arg for argument in solution.args.args]
    for operator, name, kind, expression in _values(problem):
        before = f"{name} = other({name})" if kind == "argument" else ""
        after = {"argument": "result", "result": "other(result)"}.get(kind, "result")
        if kind.startswith("result:"):
            index = int(kind.removeprefix("result:"))
            after = f"(*result[:{index}], other(result[{index}]), *result[{index + 1} :])"
        written = f"{name}.copy_(other({name}))" if kind == "written" else ""
        changed = (
            source.replace("def solution(", "def made(", 1)
            + f"""

import torch
import torch.distributed as dist


def other(v):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return {expression}


def solution({ast.unparse(solution.args)}):
    {before or "pass"}
    result = made({", ".join(parameters)})
    {written or "pass"}
    return {after}  # {name}: {expression}
"""
        )
        yield operator, f"{name}:{kind}", source, partial(str, changed)


def _values(problem: Problem) -> Iterator[tuple[str, str, str, str]]:
    """Changes of one argument or output: operator, name, how it is reached and the expression of `v`."""
    for argument in problem.arguments:
        of_kind = _SCALARS.get(argument.kind, {}) if not argument.mutable else {}
        if argument.kind is ArgumentKind.TENSOR and not argument.mutable:
            of_kind = _ANY | _of_dtype(argument.dtype)
        yield from ((operator, argument.name, "argument", text) for operator, text in of_kind.items())
    returned = [output for output in problem.outputs if output.argument is None]
    for output in problem.outputs:
        for operator, text in (_ANY | _of_dtype(output.dtype)).items():
            if output.argument is None and not output.is_list:
                index = returned.index(output)
                yield operator, "result", "result" if len(returned) == 1 else f"result:{index}", text
            elif output.argument is not None:
                place = output.argument if output.element is None else f"{output.argument}[{output.element}]"
                yield operator, place, "written", text


def _of_dtype(dtype: str) -> dict[str, str]:
    if dtype in ("input", "float64", "float32", "bfloat16"):
        wide = {"value/dtype_bfloat16": "v.to(torch.bfloat16).to(v.dtype)"} if dtype.startswith("float") else {}
        return _NUMBERS | wide
    return _WHOLE if dtype.startswith("int") else {}


_FAMILIES = {"core": _core, "honest": _honest, "code": _code, "value": _value}
