"""Finding problems: a scan of `problems/catalog/`, no list to edit and no torch.

The 88th problem is one more folder named `pNNN_slug` with a `spec.py` that defines `PROBLEM`.
"""

import ast
import hashlib
import importlib
import re
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from problems.spec.judged_data import judged_data
from problems.spec.schema import Problem

CATALOG = Path(__file__).parent / "catalog"
DATA = Path(__file__).parent / "data"
"""What was measured and judged: baselines, entries, and the season that comes as an example."""
_FOLDER = re.compile(r"p(?P<number>\d{3})_(?P<slug>[A-Za-z0-9_]+)")
_JUDGED_FILES = ("inputs.py", "reference.py", "oracle.py")
# How outputs are compared is part of every problem, whether or not its oracle has a `compare`.
_ALWAYS_SHARED = "problems.outputs.checking"
# A spec counts by the data that it comes to, so the modules that it is made from do not.
_COUNTED_AS_DATA = "problems.spec."

_REGIMES = """
Timed calls are drawn as described above. Some checked calls, at secret indices, are drawn in regimes instead: at least
one in each of those below, and others in several at once. Numbers are drawn from their ranges for every call. A program
has to be correct in all of them.

{regimes}
`python -m evaluator run {slug} solution.py --regime NAME` judges calls of one regime alone, and `--regime ONE+OTHER`
calls in both.
"""


class UnknownProblem(LookupError):
    """No problem has this slug; the message names the nearest ones."""


@cache
def _folders() -> dict[str, Path]:
    """Slug to folder, in the order of problem numbers."""
    found = {}
    for path in sorted(CATALOG.iterdir()):
        match = _FOLDER.fullmatch(path.name)
        if match and (path / "spec.py").is_file():
            found[match["slug"]] = path
    return found


@cache
def problems() -> tuple[Problem, ...]:
    """Every problem, by number.

    Raises:
        ValueError: a spec disagrees with the name of its folder.
    """
    loaded = []
    for path in _folders().values():
        problem: Problem = importlib.import_module(f"problems.catalog.{path.name}.spec").PROBLEM
        if path.name != f"p{problem.number:03d}_{problem.slug}":
            raise ValueError(f"{path.name}/spec.py describes number {problem.number}, slug {problem.slug!r}")
        loaded.append(problem)
    return tuple(loaded)


def get(slug: str) -> Problem:
    """The problem called `slug`.

    Raises:
        UnknownProblem: there is none; the message suggests near names.
    """
    for problem in problems():
        if problem.slug == slug:
            return problem
    near = get_close_matches(slug, _folders(), n=3)
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    raise UnknownProblem(f"there is no problem called {slug!r}{hint}")


def folder(slug: str) -> Path:
    """The folder of the problem called `slug`; raises UnknownProblem."""
    get(slug)
    return _folders()[slug]


def package(slug: str) -> str:
    """The dotted name of the folder of `slug`, for importing `inputs`, `reference`, `oracle` or `variants`."""
    return f"problems.catalog.{folder(slug).name}"


def _digest_file(digest: "hashlib._Hash", name: str, path: Path) -> None:
    content = path.read_bytes()
    digest.update(f"{name}\0{len(content)}\0".encode())
    digest.update(content)


@cache
def revision(slug: str) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of everything that decides how a submission is judged.

    That is what the spec comes to (`problems.spec.judged_data`), and the text of `judged_files`. How a spec is
    written, the statement and the variants do not decide any judgement, so they do not count.
    """
    digest = hashlib.sha256(judged_data(get(slug)).encode())
    for path in judged_files(slug):
        _digest_file(digest, path.relative_to(CATALOG.parent).as_posix(), path)
    return digest.hexdigest()[:16]


def judged_files(slug: str) -> list[Path]:
    """Inputs, reference and oracle of `slug`, and the shared modules that they use, directly or not.

    The spec is one of them only where another takes constants from it.
    """
    own = [folder(slug) / name for name in _JUDGED_FILES]
    constants = re.compile(rf"{folder(slug).name}\.spec import (?!PROBLEM$)", re.MULTILINE)
    if any(constants.search(path.read_text(encoding="utf-8")) for path in own):
        own.append(folder(slug) / "spec.py")
    return own + _shared_modules(own)


def _shared_modules(paths: list[Path]) -> list[Path]:
    """The modules of other folders that `paths` import, and those that these import."""
    found: set[Path] = set()
    names = {_ALWAYS_SHARED}.union(*map(_imported, paths))
    while names:
        name = names.pop()
        path = CATALOG.parent.joinpath(*name.split(".")[1:]).with_suffix(".py")
        if path not in found and path.is_file():
            found.add(path)
            names |= _imported(path)
    return sorted(found)


@cache
def _imported(path: Path) -> frozenset[str]:
    """Names of the modules of `problems` that a file imports anywhere and that count by their text."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            modules.add(node.module)
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    left_out = ("problems.catalog.", _COUNTED_AS_DATA)
    return frozenset(name for name in modules if name.startswith("problems.") and not name.startswith(left_out))


def reference_source(slug: str) -> str:
    """The text of the problem's reference, as authors read it."""
    return (folder(slug) / "reference.py").read_text(encoding="utf-8")


def statement(slug: str) -> str:
    """The problem's statement in Markdown, with the regimes that the spec lists."""
    return (folder(slug) / "statement.md").read_text(encoding="utf-8") + _what_varies(get(slug))


def _what_varies(problem: Problem) -> str:
    """A last section: how calls differ, and what stays as it is; "" where the spec says nothing of it."""
    if not problem.regimes and not problem.invariants:
        return ""
    others = f"\nA check can also be asked for in {' or '.join(problem.dtypes[1:])} (`--dtype`).\n"
    regimes = "".join(f"- `{regime.name}`: {regime.described}.\n" for regime in problem.regimes)
    fixed = "".join(f"- {sentence}\n" for sentence in problem.invariants)
    return (
        "\n### What varies, and what does not\n"
        + (_REGIMES.format(slug=problem.slug, regimes=regimes) if regimes else "")
        + (f"\nFixed in every call:\n\n{fixed}" if fixed else "")
        + (others if problem.dtypes[1:] else "")
    )
