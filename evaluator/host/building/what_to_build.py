"""What of a submission has to be built, and everything that the result depends on."""

import ast
import functools
import hashlib
import importlib.metadata
import json
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evaluator.contract import Backend, EvaluationRequest
from evaluator.errors import NodeFailure
from evaluator.hardware import profiles
from evaluator.hardware.profiles import Profile
from evaluator.host.building import disassembly
from evaluator.host.machine import gpus
from evaluator.host.machine.facts import sources_digest
from problems import registry
from problems.spec.schema import Argument, ArgumentKind, Problem

_CALL = "compile_cuda_extension"
_TRITON_KERNEL = re.compile(r"^[ \t]*@(?:triton\.)?jit\b", re.MULTILINE)

_PLAIN = (ArgumentKind.INTEGER, ArgumentKind.REAL, ArgumentKind.BOOLEAN, ArgumentKind.TEXT)

Placeholder = dict[str, Any]
"""One argument as JSON: {"shape", "dtype"}, {"group": true} or {"value"}."""


def is_needed(request: EvaluationRequest) -> bool:
    """Whether a submission has anything to build ahead, and is judged on GPUs.

    A node without the compiler has already refused the backends that need it. A submission in another backend is then
    not built, even if it names the compiler.
    """
    if not profiles.get(request.profile).is_on_gpus:
        return False
    if request.backend is Backend.PYTORCH and not has_toolchain():
        return False
    return _wants_cuda(request) or _wants_triton(request)


def key(request: EvaluationRequest, profile: Profile) -> str:
    """Equal for two requests where a build of one serves the other."""
    parts = (
        request.source.digest,
        own_digest(),
        toolchain() if _wants_cuda(request) else "",
        triton_version() if _wants_triton(request) else "",
        disassembly.READING,
        json.dumps(kernel_arguments(request, profile)),
        *gpus.architectures(profile),
        str(profile.world_size),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def kernel_arguments(request: EvaluationRequest, profile: Profile) -> list[tuple[str, list[Placeholder]]]:
    """The arguments that Triton kernels are compiled for, at every size to be judged; shapes without values."""
    if not _wants_triton(request):
        return []
    problem = registry.get(request.problem)
    # Sizes of every mode, so that a later ranked evaluation needs no other build.
    sizes = request.sizes or dict.fromkeys(size for names in profile.sizes.values() for size in names)
    found = (
        (size, placeholders(problem, size, world_size=profile.world_size, dtype=request.input_dtype)) for size in sizes
    )
    return [(size, arguments) for size, arguments in found if arguments is not None]


def _wants_cuda(request: EvaluationRequest) -> bool:
    return any(_CALL in file.text for file in request.source.files)


def _wants_triton(request: EvaluationRequest) -> bool:
    return any(_TRITON_KERNEL.search(file.text) for file in request.source.files) and triton_version() != ""


def placeholders(problem: Problem, size: str, *, world_size: int, dtype: str) -> list[Placeholder] | None:
    """One placeholder per parameter; None where input values decide a shape or a value, or a module is passed."""
    dims = problem.dims(size, world_size)
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


def has_toolchain() -> bool:
    """Whether CUDA can be compiled on this node."""
    try:
        toolchain()
    except NodeFailure:
        return False
    return True


@functools.cache
def toolchain() -> str:
    """What a build depends on besides its source: versions of nvcc, host compiler, torch and Python.

    Raises:
        NodeFailure: one of them is missing on this node.
    """
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    try:
        said = [_version(nvcc), _version("g++"), importlib.metadata.version("torch")]
    except (OSError, subprocess.SubprocessError, importlib.metadata.PackageNotFoundError) as error:
        raise NodeFailure(f"this node cannot compile CUDA: {error}") from error
    return "\n".join([*said, str(sysconfig.get_config_var("SOABI"))])


def _version(program: str) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True, timeout=30).stdout  # noqa: S603 - fixed programs


@functools.cache
def triton_version() -> str:
    """The version of Triton; "" where it is not installed."""
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return ""


@functools.cache
def own_digest() -> str:
    """What of the judge decides what a module becomes: its builder, its flags and its headers."""
    arena = Path(__file__).parents[2] / "arena"
    return sources_digest(arena / "builder", arena / "compat")
