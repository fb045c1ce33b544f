"""Where the seconds of compiling a CUDA extension go, with torch's own headers and with the short ones in front.

`make bench WHAT=building ARGS="FILE..."`, on a quiet machine with nvcc and torch. FILE is a .cu, or a submission whose
longest CUDA string is taken; without one it is tests/evaluator/submissions/gpu_allgather.py. Each step of nvcc is run
and timed by itself, so that ratios within one run compare. `--whole` compiles and links whole extensions as a builder
does, and says which of them the short headers sufficed for. `--at-once N` has N sources in work at the same time.

Precompiled headers are not among the ways. nvcc 13.0 offers none. Its front ends (cudafe++, cicc) know the options, but
with them they crash even on a header of three lines (tried on 22 November 2026, without address randomisation).
"""

import argparse
import ast
import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from evaluator.arena.compat.utils import cuda_build, nvcc_steps, short_headers
from evaluator.arena.compat.utils.cuda_build import BuildError, Extension

EXAMPLE = Path(__file__).parents[2] / "tests" / "evaluator" / "submissions" / "gpu_allgather.py"
_STEPS = {
    "host preprocessing": re.compile(r" -E .*x\.cpp4\.ii"),
    "cudafe++": re.compile(r"^\"?\S*cudafe\+\+"),
    "device preprocessing": re.compile(r" -E .*x\.cpp1\.ii"),
    "cicc": re.compile(r"^\"?\S*cicc\"? "),
    "ptxas": re.compile(r"^\"?\S*ptxas"),
    "fatbinary": re.compile(r"^\"?\S*fatbinary"),
    "host compiler": re.compile(r"^\"?\S*gcc\"? .* -c "),
}
"""The steps of one architecture, in the order in which nvcc runs them."""


@dataclass(frozen=True, kw_only=True)
class Build:
    """One source in a folder of its own, with the commands that nvcc would run for it there."""

    folder: Path
    variables: tuple[str, ...]
    commands: dict[str, str] = field(default_factory=dict)

    def run(self, step: str) -> float:
        """Run a step; the seconds that it took. Raises CalledProcessError."""
        script = "\n".join((*self.variables, self.commands[step]))
        began = time.monotonic()
        subprocess.run(["bash", "-ec", script], cwd=self.folder, check=True, capture_output=True, text=True)
        return time.monotonic() - began


def cuda_of(path: Path) -> str:
    """The CUDA text of a .cu, or the longest string of a submission."""
    text = path.read_text()
    if path.suffix != ".py":
        return text
    strings = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
    return max((one for one in strings if isinstance(one, str) and "__global__" in one), key=len)


def ways(source: str, folder: Path, flags: Sequence[str]) -> list[list[str]]:
    """The commands that are tried in turn for `source`, with files of fixed names in `folder`."""
    (folder / "x.cu").write_text(source)
    extension = Extension(name="x", source=source, cuda_flags=tuple(flags))
    return cuda_build.compile_commands(extension, source=folder / "x.cu", target=Path("x.o"))


def planned(command: Sequence[str], folder: Path) -> Build:
    """The steps of one compile command."""
    done = subprocess.run(
        [*command, "--dryrun", "--keep"], cwd=folder, check=True, capture_output=True, text=True
    ).stderr.splitlines()
    lines = [text.removeprefix("#$ ") for text in done if text.startswith("#$ ")]
    assigned = tuple(f"export {_quoted(text)}" for text in lines if re.match(r"[A-Z_]+=", text))
    commands = {name: next(text for text in lines if words.search(text)) for name, words in _STEPS.items()}
    return Build(folder=folder, variables=assigned, commands=commands)


def _quoted(assignment: str) -> str:
    name, _, value = assignment.partition("=")
    return f"{name}='{value}'"


def by_step(command: Sequence[str], folder: Path) -> dict[str, object]:
    """Seconds of every step of one way, and how much text the compilers read; the failing step, where one fails."""
    build, parts = planned(command, folder), {}
    try:
        for name in _STEPS:
            parts[name] = build.run(name)
    except subprocess.CalledProcessError as error:
        return {"parts_s": parts, "failed_in": name, "said": (error.stderr + error.stdout)[:400]}
    found = {"parts_s": parts, "together_s": sum(parts.values()), "side_by_side_s": side_by_side(command, folder)}
    return {**found, "preprocessed_bytes": (folder / "x.cpp4.ii").stat().st_size}


def side_by_side(command: Sequence[str], folder: Path) -> float | None:
    """Seconds of the same steps with host and device at the same time; None where they are other steps."""
    line = nvcc_steps.side_by_side(command, folder=folder)
    if line is None:
        return None
    began = time.monotonic()
    subprocess.run(line, cwd=folder, check=True, capture_output=True)
    return time.monotonic() - began


def measure(path: Path, flags: Sequence[str]) -> dict[str, object]:
    """Every way of compiling one source, step by step; the last is with torch's own headers alone."""
    found: dict[str, object] = {"source": path.name}
    with tempfile.TemporaryDirectory(prefix="bench-building-") as name:
        commands = ways(cuda_of(path), Path(name), flags)
        names = ["short headers", "torch's headers"][-len(commands) :]
        for way, command in zip(names, commands, strict=True):
            found[way] = by_step(command, Path(name))
    return found


def whole(path: Path, flags: Sequence[str]) -> dict[str, object]:
    """One extension built as a builder builds it."""
    extension = Extension(name="x", source=cuda_of(path), cuda_flags=tuple(flags))
    said: list[str] = []
    root = Path(tempfile.mkdtemp(prefix="bench-building-"))
    began = time.monotonic()
    try:
        cuda_build.build(extension, root=root, note=said.append)
    except BuildError as error:
        said.append(f"failed: {error.output[-400:]}")
    finally:
        shutil.rmtree(root)
    seconds = time.monotonic() - began
    failed = said[-1] if said[-1].startswith("failed: ") else None
    short = any(str(short_headers.FOLDER) in text for text in said)
    return {"source": path.name, "seconds": seconds, "short_headers_sufficed": short, "failed": failed}


def measured(asked: argparse.Namespace) -> Iterator[dict[str, object]]:
    """What was asked for, one result per source."""
    one = whole if asked.whole else measure
    with ThreadPoolExecutor(asked.at_once) as pool:
        yield from pool.map(lambda path: one(path, asked.flag), asked.files)


def main() -> None:
    """Measure and print one JSON object per source."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.building", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, default=[EXAMPLE], metavar="FILE")
    parser.add_argument("--flag", action="append", default=[], help="a further flag for nvcc")
    parser.add_argument("--whole", action="store_true", help="build whole extensions instead of step by step")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="how many sources at the same time")
    for result in measured(parser.parse_args()):
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
