"""Compile CUDA C++ held in a string and load it as a Python module."""

import fcntl
import importlib.util
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from .cuda_build import BuildError, Extension, build

BUILT_VARIABLE = "PKB_BUILT"
"""Folder of extensions that were built before the ranks started; read only. Default: /built."""

CACHE_VARIABLE = "PKB_EXTENSION_CACHE"
"""Folder in which an extension that was not is built in its first call. Default: /tmp/pkb_extensions."""


def compile_cuda_extension(
    name: str,
    cuda_src: str,
    extra_cuda_cflags: Iterable[str] | None = None,
    extra_include_paths: Iterable[str] | None = None,
    extra_ldflags: Iterable[str] | None = None,
) -> ModuleType:
    """The Python module `name` built from `cuda_src`, complete CUDA C++ with its PYBIND11_MODULE.

    Every rank may call it: one builds, the others wait and load the same artefact. A module that the judge built
    before the ranks started is loaded at once.

    Args:
        name: the module's name, TORCH_EXTENSION_NAME in the source.
        cuda_src: the source.
        extra_cuda_cflags: further flags for nvcc; an -arch, -gencode or -std among them replaces ours; PTX stays
            beside what they make.
        extra_include_paths: folders to search for headers, before torch's and CUDA's.
        extra_ldflags: further flags for the linker, such as -lcuda.

    Raises:
        BuildError: it did not compile or link; the text is the compiler's.
        ValueError: `name` is not an identifier.
    """
    extension = Extension(
        name=name,
        source=cuda_src,
        cuda_flags=tuple(extra_cuda_cflags or ()),
        include_paths=tuple(str(path) for path in extra_include_paths or ()),
        link_flags=tuple(extra_ldflags or ()),
    )
    built_ahead = extension.artefact(Path(os.environ.get(BUILT_VARIABLE, "/built")))
    return _load(extension, built_ahead if built_ahead.exists() else _build_once(extension))


def _build_once(extension: Extension) -> Path:
    """Build under a lock; a rank that waited finds the artefact, or the error, of the one that built."""
    root = Path(os.environ.get(CACHE_VARIABLE, "/tmp/pkb_extensions"))  # noqa: S108 - the sandbox's own tmpfs
    root.mkdir(parents=True, exist_ok=True)
    failure = root / f"{extension.key[:32]}.failed"
    with (root / f"{extension.key[:32]}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if failure.exists():
            raise BuildError(extension.name, "(by another rank)", failure.read_text())
        try:
            return build(extension, root=root)
        except BuildError as error:
            failure.write_text(f"{error.command}\n{error.output}")
            raise


def _load(extension: Extension, path: Path) -> ModuleType:
    loaded = sys.modules.get(extension.name)
    if loaded is not None and loaded.__file__ == str(path):
        return loaded
    spec = importlib.util.spec_from_file_location(extension.name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded as the Python module {extension.name}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[extension.name] = module
    return module
