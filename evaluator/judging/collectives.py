"""Which library collectives a submission's Python gives the problem's data to, found by following names.

What this overlooks (state kept in globals, names built at run time, native code) is left to the evidence of the run.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
"""Attributes of a tensor that carry none of its data."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Variable = tuple[int, str | int]
"""A function, and a name or a part of the text in it; trees are named by their identity."""

_MOST_STEPS = 200_000
"""At most so many parts of functions are read; a nested function counts in each that contains it."""


class TooInvolved(Exception):
    """The source has too many parts to be read; the text is for the author."""


@dataclass(frozen=True, kw_only=True)
class CollectiveUse:
    """A call of a library collective with data of the problem; `name` as the source writes it."""

    name: str
    file: str
    line: int


def find(trees: Mapping[str, ast.Module], entry: _Function | None) -> list[CollectiveUse]:
    """Every library collective in `entry` itself, and those that get its data in functions it calls.

    What data flow into is one graph over all names of all functions that are reached, gone through once. So the work
    grows with the source alone, however its functions call each other.

    Args:
        trees: the submission's Python files by path.
        entry: the definition of `solution`; None where the text does not show it.
    """
    if entry is None or not trees:
        return []
    names = _Names(trees)
    flow = _Flow(names)
    flow.open(entry, SourceBundle.ENTRY, is_entry=True)
    return list({(use.file, use.line): use for use in flow.uses()}.values())


class _Names:
    """What names in a bundle mean: its functions, the modules of torch.distributed, and collectives by alias."""

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
            owner = dotted(function.value)
            return f"{owner}.{function.attr}" if owner in self.modules else None
        return None


def _parameters(function: _Function) -> list[str]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [argument.arg for argument in every if argument is not None]


def dotted(node: ast.expr) -> str:
    """Names with dots between, such as `torch.distributed`; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


@dataclass(frozen=True, kw_only=True)
class _Call:
    """A call of a collective, and the variables that hold its arguments."""

    use: CollectiveUse
    variables: tuple[_Variable, ...]
    is_certain: bool


class _Flow:
    """Where data of the problem flow: from name to name inside a function, and from arguments to parameters."""

    def __init__(self, names: _Names) -> None:
        self._names = names
        self._roots = _Roots()
        self._edges: dict[_Variable, list[_Variable]] = {}
        self._known: set[_Variable] = set()
        self._calls: list[_Call] = []
        self._waiting: list[_Variable] = []
        self._opened: set[int] = set()
        self._callees: dict[_Variable, tuple[_Function, str]] = {}
        self._steps = 0

    def open(self, function: _Function, path: str, *, is_entry: bool = False) -> None:
        """Note what flows inside `function`; the parameters of the entry hold the problem's data.

        Raises:
            TooInvolved: there is more than is looked at.
        """
        if id(function) in self._opened:
            return
        self._opened.add(id(function))
        for node in ast.walk(function):
            self._steps += 1
            self._link_parts(id(function), node)
            for targets, value in _bindings(node):
                self._bind(id(function), targets, value)
            if isinstance(node, ast.Call):
                self._note_call(id(function), node, path, is_entry=is_entry)
            if self._steps > _MOST_STEPS:
                raise TooInvolved(f"solution and what it calls have more than {_MOST_STEPS:,} parts, the limit")
        if is_entry:
            self._reach((id(function), name) for name in _parameters(function))

    def uses(self) -> Iterator[CollectiveUse]:
        """The collectives that data reach, once everything that is reached has been opened."""
        while self._waiting:
            variable = self._waiting.pop()
            if variable in self._callees:
                self.open(*self._callees[variable])
            self._reach(self._edges.get(variable, ()))
        for call in self._calls:
            if call.is_certain or not self._known.isdisjoint(call.variables):
                yield call.use

    def _reach(self, variables: Iterable[_Variable]) -> None:
        for variable in variables:
            if variable not in self._known:
                self._known.add(variable)
                self._waiting.append(variable)

    def _link(self, begin: _Variable, end: _Variable) -> None:
        self._edges.setdefault(begin, []).append(end)
        if begin in self._known:
            self._reach([end])

    def _link_parts(self, function: int, node: ast.AST) -> None:
        """What is in a part is in the whole; of a tensor's shape, dtype and other attributes that is not so."""
        whole = (function, id(node))
        if isinstance(node, ast.Name):
            self._link((function, node.id), whole)
        elif not isinstance(node, ast.stmt) and not (isinstance(node, ast.Attribute) and node.attr in _FACTS):
            for part in ast.iter_child_nodes(node):
                self._link((function, id(part)), whole)

    def _bind(self, function: int, targets: Sequence[ast.expr], value: ast.expr) -> None:
        for target in targets:
            for name in self._roots.of(target):
                self._link((function, id(value)), (function, name))

    def _note_call(self, function: int, node: ast.Call, path: str, *, is_entry: bool) -> None:
        if (name := self._names.collective(node.func)) is not None:
            values = (*node.args, *(keyword.value for keyword in node.keywords))
            use = CollectiveUse(name=name, file=path, line=node.lineno)
            variables = tuple((function, id(value)) for value in values)
            self._calls.append(_Call(use=use, variables=variables, is_certain=is_entry))
        called = self._names.functions.get(_called_name(node.func))
        if called is not None:
            for parameter, value in _filled(node, called[0]):
                end = (id(called[0]), parameter)
                self._callees[end] = called
                self._link((function, id(value)), end)


def _called_name(function: ast.expr) -> str:
    if isinstance(function, ast.Name):
        return function.id
    return function.attr if isinstance(function, ast.Attribute) else ""


def _filled(call: ast.Call, function: _Function) -> Iterator[tuple[str, ast.expr]]:
    """The parameters of `function` that `call` gives something to, with what it gives."""
    parameters = _parameters(function)
    if parameters[:1] == ["self"] and isinstance(call.func, ast.Attribute):
        parameters = parameters[1:]
    for index, value in enumerate(call.args):
        if parameters:
            yield parameters[min(index, len(parameters) - 1)], value
    for keyword in call.keywords:
        if keyword.arg in parameters:
            yield str(keyword.arg), keyword.value


def _bindings(node: ast.AST) -> Iterator[tuple[list[ast.expr], ast.expr]]:
    """Variables and what flows into them: assignments, loops, and methods that end in an underscore."""
    if isinstance(node, ast.Assign):
        yield node.targets, node.value
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
        yield [node.target], node.value
    elif isinstance(node, ast.For | ast.comprehension):
        yield [node.target], node.iter
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        is_writing = node.func.attr.endswith("_") or node.func.attr in ("append", "extend", "insert")
        yield from (([node.func.value], value) for value in node.args if is_writing)


class _Roots:
    """The names that a variable belongs to: `a` for `a[0].b`, both for `a, b`. Chains are read once."""

    def __init__(self) -> None:
        self._known: dict[int, frozenset[str]] = {}

    def of(self, target: ast.expr) -> frozenset[str]:
        """The names of one variable."""
        passed: list[ast.expr] = []
        while (found := self._known.get(id(target))) is None and (inner := _inside(target)) is not None:
            passed.append(target)
            target = inner
        if found is None:
            found = frozenset(self._flat(target))
        self._known.update((id(node), found) for node in (*passed, target))
        return found

    def _flat(self, target: ast.expr) -> Iterator[str]:
        if isinstance(target, ast.Name):
            yield target.id
        elif isinstance(target, ast.Tuple | ast.List):
            # As deep as brackets may nest in Python, which is 200.
            for item in target.elts:
                yield from self.of(item)


def _inside(target: ast.expr) -> ast.expr | None:
    """What `target` is a part of, or a call of."""
    if isinstance(target, ast.Subscript | ast.Attribute | ast.Starred):
        return target.value
    return target.func if isinstance(target, ast.Call) else None
