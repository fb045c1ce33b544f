"""Which library collectives a submission's Python gives the problem's data to, found by following names.

What this overlooks (state kept in globals, names built at run time, native code) is left to the evidence of the run.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evaluator.contract import SourceBundle

COLLECTIVES = frozenset(
    {
        "all_gather",
        "all_gather_into_tensor",
        "all_reduce",
        "all_to_all",
        "all_to_all_single",
        "batch_isend_irecv",
        "broadcast",
        "gather",
        "irecv",
        "isend",
        "recv",
        "reduce",
        "reduce_scatter",
        "reduce_scatter_tensor",
        "scatter",
        "send",
    }
)
"""Functions of torch.distributed that move tensors; object and handle exchange is set-up and stays allowed."""

_MODULES = ("torch.distributed", "torch.distributed.distributed_c10d")
_FACTS = frozenset({"shape", "dtype", "device", "ndim", "size", "numel", "dim", "stride", "element_size", "itemsize"})
"""What may be asked of a tensor without taking its data along."""

_DEPTH = 12
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True)
class CollectiveUse:
    """A call of a library collective with data of the problem; `name` as the source writes it."""

    name: str
    file: str
    line: int


def find(bundle: SourceBundle, entry: ast.FunctionDef | ast.AsyncFunctionDef | None) -> list[CollectiveUse]:
    """Every library collective in `entry` itself, and those that get its data in functions it calls."""
    trees = dict(_trees(bundle))
    if entry is None or not trees:
        return []
    names = _Names(trees)
    seen: dict[tuple[int, frozenset[str]], None] = {}
    found: dict[tuple[str, int], CollectiveUse] = {}
    taken = frozenset(_parameters(entry))
    for use in _follow(entry, taken, names, seen, is_entry=True, depth=0):
        found[use.file, use.line] = use
    return list(found.values())


def _trees(bundle: SourceBundle) -> Iterator[tuple[str, ast.Module]]:
    for file in bundle.files:
        if file.path.endswith(".py"):
            try:
                yield file.path, ast.parse(file.text)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue


class _Names:
    """What the names in a bundle mean: its functions, the modules of torch.distributed, and collectives by alias."""

    def __init__(self, trees: Mapping[str, ast.Module]) -> None:
        self.functions: dict[str, tuple[_Function, str]] = {}
        self.modules = {*_MODULES, "dist"}
        self.aliases: dict[str, str] = {}
        for path, tree in trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    self.functions.setdefault(node.name, (node, path))
                elif isinstance(node, ast.Import):
                    self.modules |= {alias.asname for alias in node.names if alias.asname and alias.name in _MODULES}
                elif isinstance(node, ast.ImportFrom):
                    self._note_import(node)
        for tree in trees.values():
            for node in ast.walk(tree):
                if isinstance(node, ast.Assign) and (name := self.collective(node.value)):
                    self.aliases |= {target.id: name for target in node.targets if isinstance(target, ast.Name)}

    def _note_import(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if node.module in _MODULES and alias.name in COLLECTIVES:
                self.aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            elif f"{node.module}.{alias.name}" in _MODULES:
                self.modules.add(alias.asname or alias.name)

    def collective(self, function: ast.expr) -> str | None:
        """The collective that `function` names, in the words of the source; else None."""
        if isinstance(function, ast.Name):
            return self.aliases.get(function.id)
        if isinstance(function, ast.Attribute) and function.attr in COLLECTIVES:
            owner = ast.unparse(function.value)
            return f"{owner}.{function.attr}" if owner in self.modules else None
        return None


def _parameters(function: _Function) -> list[str]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [argument.arg for argument in every if argument is not None]


def _follow(
    function: _Function,
    given: frozenset[str],
    names: _Names,
    seen: dict[tuple[int, frozenset[str]], None],
    *,
    is_entry: bool,
    depth: int,
) -> Iterator[CollectiveUse]:
    """The collectives that get data in `function`, whose parameters `given` hold some, and in what it calls."""
    if (id(function), given) in seen or depth > _DEPTH:
        return
    seen[id(function), given] = None
    carrying = _carrying(function, set(given))
    path = SourceBundle.ENTRY if is_entry else names.functions[function.name][1]
    for node in ast.walk(function):
        if not isinstance(node, ast.Call):
            continue
        values = [*node.args, *(keyword.value for keyword in node.keywords)]
        name = names.collective(node.func)
        if name is not None and (is_entry or any(_carries(value, carrying) for value in values)):
            yield CollectiveUse(name=name, file=path, line=node.lineno)
        called = names.functions.get(_called_name(node.func))
        if called is not None:
            filled = frozenset(_filled(node, called[0], carrying))
            if filled:
                yield from _follow(called[0], filled, names, seen, is_entry=False, depth=depth + 1)


def _called_name(function: ast.expr) -> str:
    if isinstance(function, ast.Name):
        return function.id
    return function.attr if isinstance(function, ast.Attribute) else ""


def _filled(call: ast.Call, function: _Function, carrying: set[str]) -> Iterator[str]:
    """The parameters of `function` that `call` gives data to."""
    parameters = _parameters(function)
    if parameters[:1] == ["self"] and isinstance(call.func, ast.Attribute):
        parameters = parameters[1:]
    for place, value in enumerate(call.args):
        if _carries(value, carrying) and parameters:
            yield parameters[min(place, len(parameters) - 1)]
    for keyword in call.keywords:
        if keyword.arg in parameters and _carries(keyword.value, carrying):
            yield keyword.arg


def _carrying(function: _Function, known: set[str]) -> set[str]:
    """The names in `function` that hold data of the problem, starting from those of its parameters that do."""
    before = -1
    while len(known) != before:
        before = len(known)
        for node in ast.walk(function):
            for target, value in _bindings(node):
                if _carries(value, known):
                    known |= _roots(target)
    return known


def _bindings(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Places and what flows into them: assignments, loops, and methods that end in an underscore."""
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.For | ast.comprehension):
        yield node.target, node.iter
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        is_writing = node.func.attr.endswith("_") or node.func.attr in ("append", "extend", "insert")
        yield from ((node.func.value, value) for value in node.args if is_writing)


def _roots(target: ast.expr) -> set[str]:
    """The names that a place belongs to: `a` for `a[0].b`, both for `a, b`."""
    while isinstance(target, ast.Subscript | ast.Attribute | ast.Starred):
        target = target.value
    if isinstance(target, ast.Tuple | ast.List):
        return set().union(*(_roots(item) for item in target.elts))
    if isinstance(target, ast.Call):
        return _roots(target.func)
    return {target.id} if isinstance(target, ast.Name) else set()


def _carries(value: ast.AST, known: set[str]) -> bool:
    """Whether data of the problem are in `value`; its shape, dtype and the like are none."""
    if isinstance(value, ast.Name):
        return value.id in known
    if isinstance(value, ast.Attribute) and value.attr in _FACTS:
        return False
    return any(_carries(child, known) for child in ast.iter_child_nodes(value))
