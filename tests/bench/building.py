"""Where the seconds of compiling one CUDA extension go, and what other ways of compiling it would take.

`make bench WHAT=building ARGS="FILE..."`, on a quiet machine with nvcc and torch. FILE is a .cu, or a submission whose
longest CUDA string is taken; without one it is tests/evaluator/submissions/gpu_allgather.py. Each step of nvcc is run
and timed by itself, so that ratios within one run compare.

Precompiled headers are not among the ways. nvcc 13.0 offers none. Its front ends (cudafe++, cicc) know the options, but
with them they crash even on a header of three lines (tried on 22 November 2026, without address randomisation).
"""

import argparse
import ast
import json
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from evaluator.arena.compat.utils import cuda_build
from evaluator.arena.compat.utils.cuda_build import Extension

EXAMPLE = Path(__file__).parents[1] / "evaluator" / "submissions" / "gpu_allgather.py"
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

    def run(self, step: str, *, change: Callable[[str], str] = str) -> float:
        """Run a step; the seconds that it took. Raises CalledProcessError."""
        script = "\n".join((*self.variables, change(self.commands[step])))
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


def planned(source: str, folder: Path, flags: Sequence[str]) -> Build:
    """The steps of our own compile command for `source`, with files of fixed names in `folder`."""
    (folder / "x.cu").write_text(source)
    line = cuda_build.compile_command(
        Extension(name="x", source=source, cuda_flags=tuple(flags)), source=Path("x.cu"), target=Path("x.o")
    )
    done = subprocess.run(
        [*line, "--dryrun", "--keep"], cwd=folder, check=True, capture_output=True, text=True
    ).stderr.splitlines()
    lines = [text.removeprefix("#$ ") for text in done if text.startswith("#$ ")]
    assigned = tuple(f"export {_quoted(text)}" for text in lines if re.match(r"[A-Z_]+=", text))
    commands = {name: next(text for text in lines if words.search(text)) for name, words in _STEPS.items()}
    return Build(folder=folder, variables=assigned, commands=commands)


def _quoted(assignment: str) -> str:
    name, _, value = assignment.partition("=")
    return f"{name}='{value}'"


def step_by_step(build: Build) -> dict[str, float]:
    """Seconds of every step as it is now."""
    return {name: build.run(name) for name in _STEPS}


def side_by_side(build: Build) -> float:
    """Seconds until the object file is there with the host's and the device's front ends at the same time."""
    began = time.monotonic()
    build.run("host preprocessing")
    build.run("device preprocessing")
    with ThreadPoolExecutor() as pool:
        host = pool.submit(build.run, "cudafe++")
        device = pool.submit(lambda: [build.run(name) for name in ("cicc", "ptxas", "fatbinary")])
        host.result()
        device.result()
    build.run("host compiler")
    return time.monotonic() - began


def with_host_level(build: Build, level: str) -> float:
    """Seconds of the host compiler at another level of optimisation."""
    return build.run("host compiler", change=lambda line: line.replace(" -O3 ", f" {level} ", 1))


def measure(path: Path, flags: Sequence[str]) -> dict[str, object]:
    """Every way of compiling one source, in seconds."""
    with tempfile.TemporaryDirectory(prefix="bench-building-") as name:
        build = planned(cuda_of(path), Path(name), flags)
        parts = step_by_step(build)
        found: dict[str, object] = {"source": path.name, "parts_s": parts, "together_s": sum(parts.values())}
        found["preprocessed_bytes"] = (build.folder / "x.cpp4.ii").stat().st_size
        found["front_ends_side_by_side_s"] = side_by_side(build)
        found["host_compiler_s"] = {level: with_host_level(build, level) for level in ("-O1", "-O0")}
        return found


def main() -> None:
    """Measure and print one JSON object per source."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.building", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, default=[EXAMPLE], metavar="FILE")
    parser.add_argument("--flag", action="append", default=[], help="a further flag for nvcc")
    asked = parser.parse_args()
    for path in asked.files:
        print(json.dumps(measure(path, asked.flag), indent=1, default=str), flush=True)


if __name__ == "__main__":
    main()
