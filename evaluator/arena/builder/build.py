"""The program in the builder's sandbox: finds what a submission needs, compiles it, and sends the result.

Run in its own sandbox, without GPU, as `python -I build.py '<json>'`. The submission is imported here with a recording
stand-in for compile_cuda_extension, so nothing that this process reports is trusted. The host takes bytes within limits
and names of a fixed form, and only ranks of this same submission load them.
"""

import ast
import contextlib
import importlib
import importlib.util
import inspect
import json
import os
import struct
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

FRAME = struct.Struct("<4sIQ")
"""Before each file that is sent: magic `PKBf`, bytes of its name, bytes of its content. Both follow."""

RESULT, BEGAN = "result.json", "began"
_CALL = "compile_cuda_extension"
_JOBS = 4
_LOG_CHARACTERS = 512 * 1024
"""How much of a compiler's output is sent on."""


class Placeholder(ModuleType):
    """Stands in for a module that is not built yet: has every name, and cannot be called without a device."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _refuse


def _refuse(*_: object, **__: object) -> None:
    raise RuntimeError("extensions cannot be called while they are being built")


class Recorder:
    """Stands in for compile_cuda_extension and records what was asked for.

    Attributes:
        wanted: extensions by key, in order; True where the submission's own code asked, False where the call was
            only found in the text.
    """

    def __init__(self) -> None:
        self.wanted: dict[str, tuple[Any, bool]] = {}
        self.is_certain = True

    def record(
        self,
        name: str,
        cuda_src: str,
        extra_cuda_cflags: Any = None,
        extra_include_paths: Any = None,
        extra_ldflags: Any = None,
    ) -> Placeholder:
        """The function that a submission calls, with the signature of utils.cuda_helpers.compile_cuda_extension."""
        extension = _utils("cuda_build").Extension(
            name=name,
            source=cuda_src,
            cuda_flags=tuple(extra_cuda_cflags or ()),
            include_paths=tuple(str(path) for path in extra_include_paths or ()),
            link_flags=tuple(extra_ldflags or ()),
        )
        self.wanted.setdefault(extension.key, (extension, self.is_certain))
        return Placeholder(name)


def _utils(name: str) -> Any:
    """A module of the submissions' `utils`, which is on the path only once main has put it there."""
    return importlib.import_module(f"utils.{name}")


def main() -> None:
    """Record, build, send."""
    settings = json.loads(sys.argv[1])
    # Before anything of the submission is read: what fails before this is no fault of its author.
    os.write(settings["output"], FRAME.pack(b"PKBf", len(BEGAN), 0) + BEGAN.encode())
    os.environ["PKB_CUDA_ARCHITECTURES"] = ",".join(settings["architectures"])
    sys.path.insert(0, settings["compat"])
    source = Path(settings["source"])
    notes: list[str] = []
    # Ranks are forked before the submission is imported here.
    kernels = _compile_triton(settings, notes) if settings["calls"] else []
    is_recorded = any(_CALL in text for _, text in _texts(source))
    recorder = record(source, world_size=settings["world_size"], notes=notes) if is_recorded else Recorder()
    with os.fdopen(settings["output"], "wb") as output:
        for path in kernels:
            _send(output, f"triton/{path.parent.name}/{path.name}", path.read_bytes())
        send_all(recorder, source=source, root=Path(settings["scratch"]), notes=notes, output=output)
        output.flush()
        os._exit(0)  # threads that the submission started do not hold the builder up


def _compile_triton(settings: dict[str, Any], notes: list[str]) -> list[Path]:
    """The files of Triton's cache; the module lies beside this one, whose folder submissions do not see."""
    spec = importlib.util.spec_from_file_location("triton_build", Path(__file__).with_name("triton_build.py"))
    assert spec is not None
    assert spec.loader is not None
    triton_build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(triton_build)
    try:
        return list(triton_build.compile_all(settings, notes))
    except ImportError as error:
        notes.append(f"Triton cannot be used here: {error}")
        return []


def record(source: Path, *, world_size: int, notes: list[str]) -> Recorder:
    """Import the submission and call what needs no device; errors are only noted."""
    recorder = Recorder()
    _utils("cuda_helpers").compile_cuda_extension = recorder.record
    with contextlib.suppress(Exception):
        _join_fake_group(world_size)
    sys.path.insert(0, str(source))
    modules = _import(source, notes)
    for module in modules:
        _call_builders(module, notes)
    recorder.is_certain = False
    for module in modules:
        _evaluate_calls(module, recorder)
    return recorder


def _join_fake_group(world_size: int) -> None:
    """A process group that moves nothing, for submissions that ask for their rank while being imported."""
    import torch.distributed as dist  # noqa: PLC0415 - slow to import, and not required
    from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: PLC0415

    dist.init_process_group("fake", rank=0, world_size=world_size, store=FakeStore())


def _import(source: Path, notes: list[str]) -> list[ModuleType]:
    """`solution` and the submission's modules that it imports; what was imported before an error counts."""
    try:
        __import__("solution")
    except BaseException:  # noqa: BLE001 - also SystemExit: the ranks will show it to the author
        notes.append(
            "While looking for what to build, importing solution.py failed:\n" + traceback.format_exc(limit=-3)
        )
    named = [(module, getattr(module, "__file__", None)) for module in list(sys.modules.values())]
    return [module for module, file in named if file and file.startswith(f"{source}{os.sep}")]


def _call_builders(module: ModuleType, notes: list[str]) -> None:
    """Call the module's functions that mention compile_cuda_extension and need no argument."""
    for value in list(vars(module).values()):
        function = inspect.unwrap(value) if callable(value) else None
        if not isinstance(function, FunctionType) or function.__module__ != module.__name__:
            continue
        if _CALL in function.__code__.co_names and not _required(function):
            try:
                function()
            except BaseException:  # noqa: BLE001 - the first call will show any error
                notes.append(f"{function.__name__}() could not be run ahead:\n{traceback.format_exc(limit=-2)}")


def _required(function: FunctionType) -> list[str]:
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [item.name for item in parameters if item.default is item.empty and item.kind not in kinds]


def _evaluate_calls(module: ModuleType, recorder: Recorder) -> None:
    """Record calls found in the text whose arguments the module's own names give."""
    text = Path(str(module.__file__)).read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and _called_name(node.func) == _CALL:
            call = ast.Expression(ast.Call(ast.Name("record", ast.Load()), node.args, node.keywords))
            with contextlib.suppress(Exception):
                code = compile(ast.fix_missing_locations(call), str(module.__file__), "eval")
                eval(code, {**vars(module), "record": recorder.record})  # noqa: S307 - the submission's own text


def _called_name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def send_all(recorder: Recorder, *, source: Path, root: Path, notes: list[str], output: Any) -> None:
    """Build everything, several at once, and send each module and, last, the result."""
    with ThreadPoolExecutor(_JOBS) as pool:
        wanted = list(recorder.wanted.values())
        outcomes = list(pool.map(lambda item: _build(item[0], root), wanted))
    extensions = []
    for (extension, is_certain), (outcome, path) in zip(wanted, outcomes, strict=True):
        extensions.append({**outcome, "is_certain": is_certain, **_origin(extension.source, source)})
        if path is not None:
            _send(output, str(path.relative_to(root)), path.read_bytes())
    _send(output, RESULT, json.dumps({"extensions": extensions, "notes": notes}).encode())


def _build(extension: Any, root: Path) -> tuple[dict[str, Any], Path | None]:
    cuda_build = _utils("cuda_build")
    said: list[str] = []
    started = time.monotonic()
    path = None
    try:
        path = cuda_build.build(extension, root=root, note=said.append)
    except cuda_build.BuildError as error:
        said += [error.command, error.output]
    seconds = time.monotonic() - started
    outcome = {"name": extension.name, "succeeded": path is not None, "seconds": seconds, "log": _cut("\n".join(said))}
    return outcome, path


def _cut(text: str) -> str:
    """Beginning and end of a compiler's output that is longer than the host would keep."""
    half = _LOG_CHARACTERS // 2
    return text if len(text) <= _LOG_CHARACTERS else f"{text[:half]}\n[...]\n{text[-half:]}"


def _origin(text: str, source: Path) -> dict[str, Any]:
    """Where in the submission's files `text` stands word for word: file and first line, or nothing."""
    for path, content in _texts(source):
        at = content.find(text)
        if at >= 0:
            return {"file": path, "line": content.count("\n", 0, at) + 1}
    return {"file": None, "line": None}


def _texts(source: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(source.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(source)), path.read_text(encoding="utf-8", errors="replace")


def _send(output: Any, name: str, content: bytes) -> None:
    encoded = name.encode()
    output.write(FRAME.pack(b"PKBf", len(encoded), len(content)))
    output.write(encoded)
    output.write(content)


if __name__ == "__main__":
    main()
