"""Rules that a submission's text can break.

They enforce the written rules of the site. They are never the only defence against a cheat.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from evaluator.contract import (
    Backend,
    Detection,
    EvidenceSource,
    Finding,
    Mode,
    Primitive,
    SourceBundle,
    Verdict,
)
from evaluator.hardware.profiles import Profile
from evaluator.judging import collectives, parsed_source, source_files
from problems.spec.schema import Problem

MAX_BYTES = 512 * 1024
"""All files of a submission together, in bytes of UTF-8."""

_MULTICAST = re.compile(r"\b(multimem\w*|cuMulticast\w*|multicast_ptr\w*|nvshmemx?_mc_ptr|nccl\w*Multimem\w*)\b")
_PEERS = re.compile(
    r"\b(_?symmetric_memory|_?symm_mem|cudaIpc\w+|cudaDeviceEnablePeerAccess|cuMemImport\w+|nvshmem\w*|ncclGetPeer\w*)\b"
)
"""Names of what maps a peer's memory."""


def check_source(
    problem: Problem, bundle: SourceBundle, *, backend: Backend, profile: Profile, mode: Mode
) -> tuple[Finding, ...]:
    """Every reason not to judge `bundle` that its text shows.

    Returns:
        Findings with verdicts LIMIT_EXCEEDED, UNSUPPORTED, FORBIDDEN or IMPORT_ERROR; empty when nothing does.
    """
    if found := (*_check_limits(bundle), *_check_paths(bundle)):
        return found
    parsed = parsed_source.parse(bundle)
    return (
        *_check_support(problem, bundle, backend=backend, profile=profile, mode=mode),
        *(parsed.findings or _check_entry(problem, parsed.trees)),
        *(_check_collectives(parsed.trees, backend=backend) if mode is Mode.RANKED and not parsed.findings else ()),
    )


def warnings(bundle: SourceBundle, *, backend: Backend, mode: Mode) -> tuple[Finding, ...]:
    """What would be findings in ranked mode, where the mode is another."""
    if mode is Mode.RANKED or backend is Backend.PYTORCH:
        return ()
    parsed = parsed_source.parse(bundle)
    return () if parsed.findings else tuple(_check_collectives(parsed.trees, backend=backend))


def check_machine_code(detections: Sequence[Detection], *, profile: Profile) -> tuple[Finding, ...]:
    """UNSUPPORTED where built code uses multicast and the profile has none, whatever the source says."""
    if profile.multicast:
        return ()
    return tuple(
        Finding(
            verdict=Verdict.UNSUPPORTED,
            message=f"{detection.detail} of {detection.file} needs NVLink multicast, {_without_multicast(profile)}",
        )
        for detection in detections
        if detection.primitive is Primitive.NVLS and detection.evidence is EvidenceSource.COMPILED
    )


def _check_limits(bundle: SourceBundle) -> Iterator[Finding]:
    size = sum(len(file.text.encode()) for file in bundle.files)
    if size > MAX_BYTES:
        message = f"the submission has {size:,} bytes; the limit is {MAX_BYTES:,} for all files together"
        yield Finding(verdict=Verdict.LIMIT_EXCEEDED, message=message)


def _check_paths(bundle: SourceBundle) -> Iterator[Finding]:
    for path, fault in source_files.faults([file.path for file in bundle.files]):
        yield Finding(verdict=Verdict.LIMIT_EXCEEDED, message=f"{clipped(path)}: {fault}")


def clipped(path: str) -> str:
    """A path from a submission, safe to show."""
    return ascii(path)[:120]


def _check_support(
    problem: Problem, bundle: SourceBundle, *, backend: Backend, profile: Profile, mode: Mode
) -> Iterator[Finding]:
    if backend not in profile.backends:
        judged = ", ".join(profile.backends)
        why = ", where all ranks share one GPU," if profile.shares_gpu else ""
        message = f"profile {profile.name}{why} cannot judge backend {backend}; it judges {judged}"
        yield Finding(verdict=Verdict.UNSUPPORTED, message=message)
    refusal = problem.refuses(profile.world_size, profile.sizes[mode])
    if refusal is not None:
        message = f"{problem.slug} does not run on {profile.world_size} ranks: {refusal}"
        yield Finding(verdict=Verdict.UNSUPPORTED, message=message)
    if not profile.multicast and profile.is_on_gpus:
        yield from _find(_MULTICAST, bundle, f"needs NVLink multicast, {_without_multicast(profile)}")
    if not profile.peer_access:
        yield from _find(_PEERS, bundle, f"needs peer access between GPUs, which those of {profile.name} do not have")


def _find(pattern: re.Pattern[str], bundle: SourceBundle, what: str) -> Iterator[Finding]:
    """UNSUPPORTED for the first match in every file."""
    for file in bundle.files:
        # Blanking keeps the line numbers that authors see.
        code = parsed_source.without_comments(file)
        found = pattern.search(code)
        if found:
            line = code.count("\n", 0, found.start()) + 1
            yield Finding(verdict=Verdict.UNSUPPORTED, message=f"{found[0]} {what}", file=file.path, line=line)


def _without_multicast(profile: Profile) -> str:
    if profile.shares_gpu:
        return f"so several GPUs; the ranks of {profile.name} share one"
    return f"which is off on {profile.name}"


def _check_entry(problem: Problem, trees: Mapping[str, ast.Module]) -> Iterator[Finding]:
    if SourceBundle.ENTRY not in trees:
        yield _import_error(f"there is no {SourceBundle.ENTRY}", file=SourceBundle.ENTRY)
        return
    yield from _check_signature(problem, trees[SourceBundle.ENTRY])


def _import_error(message: str, *, file: str, line: int | None = None) -> Finding:
    return Finding(verdict=Verdict.IMPORT_ERROR, message=message, file=file, line=line)


def _check_signature(problem: Problem, tree: ast.Module) -> Iterator[Finding]:
    if _may_be_bound_otherwise(tree):
        return  # the import decides
    definition = _solution_definition(tree)
    if definition is None:
        message = f"there is no function called solution; expected {problem.signature}"
        yield _import_error(message, file=SourceBundle.ENTRY)
        return
    if isinstance(definition, ast.AsyncFunctionDef):
        yield _import_error("solution must not be async", file=SourceBundle.ENTRY, line=definition.lineno)
    elif not _accepts(definition.args, problem.parameter_names):
        message = (
            f"solution({', '.join(_names(definition.args))}) does not take the problem's parameters; "
            f"expected {problem.signature}"
        )
        yield _import_error(message, file=SourceBundle.ENTRY, line=definition.lineno)


def _solution_definition(tree: ast.Module) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The last definition of `solution` at module level, where it is not rebound later."""
    found = None
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and statement.name == "solution":
            found = statement
        elif _assigns_solution(statement):
            found = None
    return found


_DYNAMIC = frozenset({"globals", "locals", "vars", "exec", "eval", "setattr", "__dict__", "__setattr__", "modules"})
"""Names through which code can bind a module's names without a visible binding."""


def _may_be_bound_otherwise(tree: ast.Module) -> bool:
    """Whether `solution` may be something other than a function defined at module level, judged by the text."""
    plain = {id(statement) for statement in tree.body if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)}
    in_scope = (node for statement in tree.body for node in _module_scope(statement) if id(node) not in plain)
    return any(map(_binds_solution, in_scope)) or any(map(_is_dynamic, ast.walk(tree)))


def _binds_solution(node: ast.AST) -> bool:
    """Whether `node` itself binds or unbinds the name."""
    if isinstance(node, ast.Name):
        return node.id == "solution" and not isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.alias):
        return (node.asname or node.name.partition(".")[0]) in ("solution", "*")
    return "solution" in (getattr(node, "name", None), getattr(node, "rest", None))


def _is_dynamic(node: ast.AST) -> bool:
    """Whether `node` can bind names of the module from elsewhere."""
    if isinstance(node, ast.Global):
        return "solution" in node.names
    return getattr(node, "id", None) in _DYNAMIC or getattr(node, "attr", None) in _DYNAMIC


def _module_scope(statement: ast.AST) -> Iterator[ast.AST]:
    """`statement` and what it holds, without the insides of functions and classes, which bind nothing outside."""
    waiting = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))
        else:
            waiting.extend(getattr(node, "decorator_list", ()))
            waiting.extend(default for default in _defaults(node) if default is not None)


def _defaults(node: ast.AST) -> list[ast.expr | None]:
    arguments = getattr(node, "args", None)
    return [*arguments.defaults, *arguments.kw_defaults] if isinstance(arguments, ast.arguments) else []


def _assigns_solution(statement: ast.AST) -> bool:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return any((alias.asname or alias.name) in ("solution", "*") for alias in statement.names)
    targets = {ast.Assign: "targets", ast.AnnAssign: "target"}.get(type(statement))
    if targets is None:
        return False
    value = getattr(statement, targets)
    names = value if isinstance(value, list) else [value]
    return any(isinstance(node, ast.Name) and node.id == "solution" for name in names for node in ast.walk(name))


def _names(arguments: ast.arguments) -> list[str]:
    return [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]


def _accepts(arguments: ast.arguments, expected: tuple[str, ...]) -> bool:
    """Whether a call with the problem's arguments by position reaches parameters of the same names."""
    names = _names(arguments)
    required_keywords = [default for default in arguments.kw_defaults if default is None]
    if required_keywords:
        return False
    if len(names) < len(expected):
        return arguments.vararg is not None and tuple(names) == expected[: len(names)]
    without_default = len(names) - len(arguments.defaults)
    return tuple(names[: len(expected)]) == expected and without_default <= len(expected)


def _check_collectives(trees: Mapping[str, ast.Module], *, backend: Backend) -> Iterator[Finding]:
    """Library collectives that move the problem's data, which only backend pytorch may use.

    Handles may be exchanged during set-up. What the text does not show, the run shows.
    """
    if backend is Backend.PYTORCH or SourceBundle.ENTRY not in trees:
        return
    try:
        uses = collectives.find(trees, _solution_definition(trees[SourceBundle.ENTRY]))
    except collectives.TooInvolved as error:
        yield Finding(verdict=Verdict.LIMIT_EXCEEDED, message=str(error))
        return
    for use in uses:
        yield Finding(
            verdict=Verdict.FORBIDDEN,
            message=f"a path of solution moves the problem's data by {use.name}; only backend pytorch may use it",
            file=use.file,
            line=use.line,
        )
