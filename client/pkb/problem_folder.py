"""The folder that `pkb init` writes: what a person or a coding agent needs to work on one problem."""

from dataclasses import dataclass
from pathlib import Path

from .errors import UsageError
from .results import Problem

_TEST = '''"""Checks of solution.py that need no site. Run `python -m pytest` or `python test_local.py`.

If PKB_JUDGE names a checkout of the site's repository (see AGENTS.md), the second test runs the judge on this machine.
Without it, use `pkb submit`.
"""

import ast
import os
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).parent
PARAMETERS = {parameters!r}


class Solution(unittest.TestCase):
    def test_it_has_a_function_with_the_parameters_of_the_problem(self):
        tree = ast.parse((HERE / "solution.py").read_text(), "solution.py")
        functions = {{node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}}
        self.assertIn("solution", functions, "solution.py has no function solution(...)")
        found = [argument.arg for argument in functions["solution"].args.args]
        self.assertEqual(found, PARAMETERS)

    @unittest.skipUnless(os.environ.get("PKB_JUDGE"), "PKB_JUDGE is not set: no judge on this machine")
    def test_the_judge_passes_it_on_this_machine(self):
        command = ["pkb", "judge", "{slug}", str(HERE / "solution.py"), "--mode", "check", "--backend", "{backend}"]
        ended = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
'''
_GUIDE = """# {title}: how to work here

Write one function, `solution(...)`, in `solution.py`. All ranks call it at the same time, each with its own arguments.
It must be correct on every rank and faster than `reference.py`.

| file | |
|---|---|
| `solution.py` | your program; the only file that is submitted, unless you submit a folder or a .zip |
| `STATEMENT.md` | the task: mathematics, shapes, tolerance, legal inputs; with `--hints` also what limits it |
| `reference.py` | the program to beat: PyTorch and torch.distributed |
| `test_local.py` | local checks: `python test_local.py` |

## The loop
1. Read `STATEMENT.md` and `reference.py`. Keep the signature: `{signature}`.
2. Change `solution.py`. Run `python test_local.py`.
3. `pkb submit {slug} solution.py --backend {backend} --mode check --watch` compiles and verifies quickly.
   The exit status is 0 exactly when it passes. Otherwise the output names rank, size, output or line.
4. Once it passes, `--mode ranked` times it against the reference and counts on the board.
5. If the judge is installed on this machine, `pkb judge {slug} solution.py` runs it without the site.

## Rules
- Inputs are secret, fresh in every call and different on every rank. Special cases for values only cost time.
- Compute in every call. A result kept from an earlier call is STALE_OUTPUT. Work outside of the timed call is refused.
- Write to an argument only where the statement says that it may be written to.
- All ranks reach the same collectives in the same order, or the verdict is DEADLOCK with every rank's position.
- No network, no files outside the working folder, no processes of your own.
"""


@dataclass(frozen=True, kw_only=True)
class ProblemFolder:
    """What is written where; nothing that exists is replaced unless `replaces` says so."""

    folder: Path
    backend: str
    replaces: bool = False

    def write(self, problem: Problem) -> list[Path]:
        """Write the files for `problem` and return where they are.

        Raises:
            UsageError: there is no starter for the backend, or a file exists already; nothing is written then.
        """
        texts = self.texts(problem)
        paths = [self.folder / name for name in texts]
        there = [path.name for path in paths if path.exists()]
        if there and not self.replaces:
            raise UsageError(f"{self.folder} has {', '.join(there)} already. Choose another folder, or use --force.")
        self.folder.mkdir(parents=True, exist_ok=True)
        for path, text in zip(paths, texts.values(), strict=True):
            path.write_text(text, encoding="utf-8")
        return paths

    def texts(self, problem: Problem) -> dict[str, str]:
        """The files by name; raises UsageError where there is no starter for the backend."""
        starter = problem.starters.get(self.backend)
        if starter is None:
            raise UsageError(f"There is no starter for {self.backend}. Choose one of {', '.join(problem.starters)}.")
        words = {"slug": problem.slug, "title": problem.title, "backend": self.backend}
        guide = _GUIDE.format(signature=problem.signature, **words)
        return {
            "solution.py": starter,
            "STATEMENT.md": _statement(problem),
            "reference.py": problem.reference,
            "test_local.py": _TEST.format(parameters=_parameters(problem.signature), **words),
            "AGENTS.md": guide,
        }


def _parameters(signature: str) -> list[str]:
    inside = signature[signature.index("(") + 1 : signature.rindex(")")]
    return [part.split(":")[0].split("=")[0].strip() for part in inside.split(",") if part.strip()]


def _statement(problem: Problem) -> str:
    notes = "".join(f"\n- {note}" for note in problem.notes)
    head = f"# {problem.title}\n\n{problem.summary}\n\nSignature: `{problem.signature}`\nGroups: {problem.groups}\n"
    ranks = f"World size: {problem.world_size_rule}\nRevision: {problem.revision}\n"
    return f"{head}{ranks}\n{problem.statement.strip()}\n" + (f"\n## Notes\n{notes}\n" if notes else "")
