"""The tools on this node that decide what a build gives."""

import functools
import importlib.metadata
import shutil
import subprocess
import sysconfig
from pathlib import Path

from evaluator.errors import NodeTrouble
from evaluator.host.machine.facts import sources_digest


def has_toolchain() -> bool:
    """Whether CUDA can be compiled on this node."""
    try:
        toolchain()
    except NodeTrouble:
        return False
    return True


@functools.cache
def toolchain() -> str:
    """What a build depends on besides its source: versions of nvcc, host compiler, torch and Python.

    Raises:
        NodeTrouble: one of them is missing on this node.
    """
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    try:
        said = [_version(nvcc), _version("g++"), importlib.metadata.version("torch")]
    except (OSError, subprocess.SubprocessError, importlib.metadata.PackageNotFoundError) as error:
        raise NodeTrouble(f"this node cannot compile CUDA: {error}") from error
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
