"""One CUDA C++ extension: its identity, the commands that build it, and the build itself.

Builder and ranks use this same module, so that what was built ahead is found again by its key. Only the standard
library is imported at the top: torch, whose headers and libraries an extension is built against, is looked up when
the commands are made.
"""

import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import nvcc_steps, short_headers

ARCHITECTURES_VARIABLE = "PKB_CUDA_ARCHITECTURES"
"""Compute capabilities to build for, as nvcc writes them, separated by commas: "90a"."""

DEFAULT_ARCHITECTURES = ("90a",)
BUILD_SECONDS = 300
"""Longest time one nvcc or linker command may take."""

_ARCHITECTURE_FLAGS = ("-gencode", "-arch", "--gpu-architecture")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_TORCHS_MISSING = re.compile(r"undefined reference to .*\b(?:at|c10|torch)::")


class BuildError(RuntimeError):
    """The extension did not compile or link; the text holds the command and the compiler's whole output."""

    def __init__(self, name: str, command: str, output: str) -> None:
        super().__init__(f"building the CUDA extension {name!r} failed\n{command}\n{output}")
        self.name = name
        self.command = command
        self.output = output


@dataclass(frozen=True, kw_only=True)
class Extension:
    """An extension that a submission asks for; two equal ones are the same artefact.

    Raises:
        ValueError: `name` is not a Python identifier, which it must be to name a module and a C++ symbol.
    """

    name: str
    source: str
    cuda_flags: tuple[str, ...] = ()
    include_paths: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise ValueError(f"the extension's name {self.name!r} is not an identifier: use letters, digits and _")

    @property
    def key(self) -> str:
        """SHA-256 over name, source and flags, in hexadecimal.

        Tool chain and architectures are left out: a folder of built extensions belongs to one of each.
        """
        groups = ((self.name, self.source), self.cuda_flags, self.include_paths, self.link_flags)
        return hashlib.sha256(json.dumps(groups).encode()).hexdigest()

    @property
    def is_relocatable(self) -> bool:
        """Whether its device code refers to code outside the file, as with a device library, and is linked by nvcc."""
        asked = {"-dc", "-rdc=true", "--device-c", "--relocatable-device-code=true"}
        return not asked.isdisjoint(self.cuda_flags)

    def artefact(self, root: Path) -> Path:
        """Where the built module lies under `root`, a folder of built extensions."""
        return root / self.key[:32] / f"{self.name}.so"


def architectures() -> tuple[str, ...]:
    """The compute capabilities to build for: of the environment, else of the GPU that is there, else Hopper's."""
    named = tuple(part for part in os.environ.get(ARCHITECTURES_VARIABLE, "").split(",") if part)
    if named:
        return named
    import torch  # noqa: PLC0415 - the builder's host side reads this module without torch

    if not torch.cuda.is_available():
        return DEFAULT_ARCHITECTURES
    major, minor = torch.cuda.get_device_capability()
    return (f"{major}{minor}a" if major >= 9 else f"{major}{minor}",)


@functools.cache
def cuda_home() -> Path:
    """The folder of the CUDA tool kit: CUDA_HOME, the usual folder, or that of the nvcc on PATH.

    Raises:
        FileNotFoundError: there is no nvcc.
    """
    named = [os.environ.get("CUDA_HOME"), "/usr/local/cuda", shutil.which("nvcc")]
    folders = [Path(name) for name in named if name]
    for folder in (*folders[:-1], folders[-1].resolve().parent.parent):
        if (folder / "bin" / "nvcc").exists():
            return folder
    raise FileNotFoundError("there is no nvcc: put it on PATH or name the tool kit's folder in CUDA_HOME")


def compile_command(extension: Extension, *, source: Path, target: Path, first: tuple[str, ...] = ()) -> list[str]:
    """The nvcc command that turns `source` into the object file `target`.

    The macros and half-precision switches are those of torch's own extension builder, so that sources written for
    that one compile here.

    Args:
        extension: names flags and folders.
        source: the file with its source.
        target: the object file.
        first: folders whose headers are found before torch's.
    """
    from torch.utils import cpp_extension  # noqa: PLC0415 - see architectures

    chosen = [flag for flag in extension.cuda_flags if flag.startswith(_ARCHITECTURE_FLAGS)]
    standard = [flag for flag in extension.cuda_flags if flag.startswith(("-std", "--std"))]
    return [
        str(cuda_home() / "bin" / "nvcc"),
        *("-c", str(source), "-o", str(target)),
        f"-DTORCH_EXTENSION_NAME={extension.name}",
        "-DTORCH_API_INCLUDE_EXTENSION_H",
        *cpp_extension.COMMON_NVCC_FLAGS,
        *([] if chosen else _architecture_flags()),
        *(_readable_flags(extension) if chosen else []),
        *([] if standard else ["-std=c++17"]),
        # Line numbers leave the machine code as it is and add 1 to 2 % to the object.
        *("-O3", "-lineinfo", "--threads=2", "-Xcompiler", "-fPIC"),
        *(f"-I{path}" for path in extension.include_paths),
        *(part for path in (*first, *_include_paths()) for part in ("-isystem", path)),
        *extension.cuda_flags,
    ]


def device_link_command(extension: Extension, *, target: Path, compiled: Path) -> list[str]:
    """The nvcc command that links relocatable device code in `compiled`, and the libraries it names, into `target`."""
    chosen = [flag for flag in extension.cuda_flags if flag.startswith(_ARCHITECTURE_FLAGS)]
    # By its ending a shared library holds no device code to link, and nvcc does not know the form with a colon.
    libraries = [flag for flag in extension.link_flags if flag.startswith(("-L", "-l")) and not flag.startswith("-l:")]
    return [
        str(cuda_home() / "bin" / "nvcc"),
        *("-dlink", str(compiled), "-o", str(target)),
        *(chosen or _architecture_flags()),
        *("-Xcompiler", "-fPIC"),
        *libraries,
    ]


def link_command(extension: Extension, *, target: Path, objects: list[Path]) -> list[str]:
    """The command that links `objects` into the Python module `target` against torch and the CUDA runtime."""
    import torch  # noqa: PLC0415 - see architectures

    torch_libraries = Path(torch.__file__).parent / "lib"
    on_device = ["-lc10_cuda", "-ltorch_cuda"] if (torch_libraries / "libtorch_cuda.so").exists() else []
    cuda_libraries = cuda_home() / "lib64"
    return [
        *("g++", "-shared", "-o", str(target)),
        *(str(path) for path in objects),
        *(f"-L{torch_libraries}", f"-L{cuda_libraries}", f"-L{cuda_libraries / 'stubs'}"),
        *("-lc10", "-ltorch_cpu", *on_device, "-ltorch", "-ltorch_python", "-lcudart"),
        *extension.link_flags,
    ]


def build(extension: Extension, *, root: Path, note: Callable[[str], object] = str) -> Path:
    """Compile and link `extension` under `root` and give the module's path; at once if it is there already.

    Everything is made in a temporary folder and moved in one step, so a reader finds all or nothing. `note` gets
    each command with its output, the source called by the extension's name.

    Raises:
        BuildError: compiler or linker refused, or took longer than BUILD_SECONDS.
    """
    artefact = extension.artefact(root)
    if artefact.exists():
        return artefact
    work = root / f".{artefact.parent.name}.{os.getpid()}"
    work.mkdir(parents=True, exist_ok=True)
    try:
        source, compiled = work / f"{extension.name}.cu", work / f"{extension.name}.o"
        source.write_text(extension.source)
        note(_compile(extension, source=source, target=compiled))
        for command in _link_commands(extension, compiled=compiled, target=work / artefact.name):
            note(_run(extension, command, folder=work))
        artefact.parent.mkdir(exist_ok=True)
        (work / artefact.name).replace(artefact)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return artefact


def compile_commands(extension: Extension, *, source: Path, target: Path) -> list[list[str]]:
    """The nvcc commands to try in turn: with the short headers, where they apply, and with torch's own alone.

    They are to be run in the folder of `source`, where this writes what the short headers include for it.
    """
    commands = [compile_command(extension, source=source, target=target)]
    if short_headers.help_with(extension.source):
        named = short_headers.includes_for(extension.source, torch_headers=_torch_headers())
        (source.parent / short_headers.NAMED).write_text(named)
        folders = (str(short_headers.FOLDER), ".")
        commands.insert(0, compile_command(extension, source=source, target=target, first=folders))
    return commands


def _compile(extension: Extension, *, source: Path, target: Path) -> str:
    """Compile by the first command that succeeds; that command, or else the last, with its output."""
    folder = source.parent
    *tried, last = compile_commands(extension, source=source, target=target)
    for command in tried:
        with contextlib.suppress(BuildError):
            said = _run(extension, command, folder=folder, by=nvcc_steps.side_by_side(command, folder=folder))
            if _is_whole(extension, compiled=target):
                return said
    return _run(extension, last, folder=folder)


def _is_whole(extension: Extension, *, compiled: Path) -> bool:
    """Whether torch's libraries hold all of torch that `compiled` refers to.

    A header may declare a function that another header defines. Without that one the module links, but does not load.
    """
    bare = Extension(name=extension.name, source="")
    command = link_command(bare, target=compiled.with_suffix(".trial.so"), objects=[compiled])
    said = _run(extension, [*command, "-Wl,-z,defs,--warn-unresolved-symbols"], folder=compiled.parent)
    return _TORCHS_MISSING.search(said) is None


def _link_commands(extension: Extension, *, compiled: Path, target: Path) -> list[list[str]]:
    commands, objects = [], [compiled]
    if extension.is_relocatable:
        objects.append(compiled.with_suffix(".device.o"))
        commands.append(device_link_command(extension, target=objects[-1], compiled=compiled))
    return [*commands, link_command(extension, target=target, objects=objects)]


def _architecture_flags() -> list[str]:
    # The PTX is for the judge: machine code does not distinguish a multicast store from a plain one.
    return [f"-gencode=arch=compute_{name},code=[sm_{name},compute_{name}]" for name in architectures()]


def _readable_flags(extension: Extension) -> list[str]:
    """The PTX beside whatever the author's own flags make; nvcc refuses it beside code for link-time optimisation."""
    if any("dlto" in flag or "dlink-time-opt" in flag or "lto_" in flag for flag in extension.cuda_flags):
        return []
    return [f"-gencode=arch=compute_{name},code=compute_{name}" for name in architectures()]


def _include_paths() -> list[str]:
    headers, python = _torch_headers(), sysconfig.get_path("include")
    return [str(headers), str(headers / "torch/csrc/api/include"), str(cuda_home() / "include"), python]


def _torch_headers() -> Path:
    import torch  # noqa: PLC0415 - see architectures

    return Path(torch.__file__).parent / "include"


def _run(extension: Extension, command: list[str], *, folder: Path, by: list[str] | None = None) -> str:
    """Run one command and give it with its output; the work folder's name is left out of both.

    `by` runs in its stead, and has the same outcome.
    """

    def shorten(text: str) -> str:
        return text.replace(f"{folder}/", "")

    written = shorten(" ".join(command))
    try:
        done = subprocess.run(  # noqa: S603 - the command is ours; its flags act inside the sandbox only
            by or command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=BUILD_SECONDS,
            check=False,
            cwd=folder,
        )
    except subprocess.TimeoutExpired as error:
        raise BuildError(extension.name, written, f"stopped after {BUILD_SECONDS} s") from error
    output = shorten(done.stdout.decode(errors="replace"))
    if done.returncode != 0:
        raise BuildError(extension.name, written, output)
    return f"{written}\n{output}"
