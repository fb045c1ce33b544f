"""Finding problems: a scan of `problems/catalog/`, no list to edit and no torch.

The 88th problem is one more folder named `pNNN_slug` with a `spec.py` that defines `PROBLEM`.
"""

import hashlib
import importlib
import re
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from problems.schema import Problem

CATALOG = Path(__file__).parent / "catalog"
_FOLDER = re.compile(r"p(?P<number>\d{3})_(?P<slug>[A-Za-z0-9_]+)")
# A change to these changes what every problem's values or comparison mean, so it is part of each revision.
_SHARED_FILES = ("values.py", "groups.py", "comparison.py", "schema.py")


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
    """The first 16 hexadecimal digits of the SHA-256 of the problem's folder and the shared generator code.

    The statement and the variants do not decide any judgement, so they do not count.
    """
    digest = hashlib.sha256()
    for name in _SHARED_FILES:
        _digest_file(digest, name, CATALOG.parent / name)
    for name in ("spec.py", "inputs.py", "reference.py", "oracle.py"):
        _digest_file(digest, name, folder(slug) / name)
    return digest.hexdigest()[:16]


def reference_source(slug: str) -> str:
    """The text of the problem's reference, as authors read it."""
    return (folder(slug) / "reference.py").read_text(encoding="utf-8")


def statement(slug: str) -> str:
    """The problem's statement in Markdown."""
    return (folder(slug) / "statement.md").read_text(encoding="utf-8")
