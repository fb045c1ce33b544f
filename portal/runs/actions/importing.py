"""A tree of solutions, as the public harness writes it, becomes a run.

The folder is called `solutions_<backend>_<precision>_<hardware>_<provider>_<model>`, where the hardware may be a GPU
and a count apart (`h100_8`), and holds files like
`<number>_<slug>_<backend>.py`. Numbers may come from an older numbering, so the slug decides and the number is what is
left when it is unknown.
"""

import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import IO

from django.db import transaction

from evaluator.contract import Backend, SourceBundle
from evaluator.hardware import profiles
from portal.accounts.models import User
from portal.refusals import Refusal
from portal.runs import uploads
from portal.runs.actions.adding import BulkResult, add_lines
from portal.runs.actions.creating import RunWishes, create_run
from portal.runs.models import Run, RunMode
from problems import registry

_PREFIX = "solutions_"
_FILE = re.compile(r"(?P<number>\d{1,4})_(?P<name>.+)\.py")
_AFTER_BACKEND = re.compile(
    r"(?P<precision>[^_]*)(?:_(?P<hardware>[^_]*?)(?:_(?P<count>\d+))?(?:_(?P<provider>[^_]*)(?:_(?P<model>.+))?)?)?"
)
_BACKENDS = {**{backend.value: backend.value for backend in Backend}, "torch": Backend.PYTORCH.value}
_COUNTED_GPUS = re.compile(r"(?:(?P<before>\d+)x)?(?P<gpu>[a-z]+\d+[a-z]*?)(?:x(?P<after>\d+))?")


@dataclass(frozen=True, kw_only=True)
class TreeName:
    """What the name of a folder says; a part that it lacks is empty."""

    backend: str = ""
    precision: str = ""
    hardware: str = ""
    provider: str = ""
    model: str = ""

    @property
    def profile(self) -> str:
        """The profile that the hardware names, or empty."""
        plain = self.hardware.lower()
        if plain in profiles.profiles():
            return plain
        match = _COUNTED_GPUS.fullmatch(plain)
        if match is None or not (match["before"] or match["after"]):
            return ""
        name = f"{match['gpu']}x{match['before'] or match['after']}"
        return name if name in profiles.profiles() else ""


@dataclass(frozen=True, kw_only=True)
class Matched:
    """A file and its problem; `by` is slug or number, `note` says what differed."""

    path: str
    problem: str
    by: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Unmatched:
    """A file that became no attempt, and why."""

    path: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ImportResult:
    """The new run, which files went where, and what became of each attempt."""

    run: Run
    matched: tuple[Matched, ...]
    unmatched: tuple[Unmatched, ...]
    bulk: BulkResult


@dataclass(frozen=True, kw_only=True)
class _Tree:
    name: TreeName
    matched: dict[str, Matched] = field(default_factory=dict)
    members: dict[str, zipfile.ZipInfo] = field(default_factory=dict)
    unmatched: list[Unmatched] = field(default_factory=list)


def import_tree(user: User, stream: IO[bytes], *, name: str, wishes: Mapping[str, object]) -> ImportResult:
    """Make a run of the solutions in a zip. What `wishes` leave out comes from the folder's name.

    Raises:
        Refusal: the zip cannot be read, holds several trees or no file that matches a problem, or something that a run
            needs is said neither by the name nor by `wishes`; and as `create_run` and `add_lines`.
    """
    with uploads.opened(stream, name=name) as archive:
        tree = _read_tree(archive, name=name)
        if not tree.matched:
            reasons = "; ".join(f"{file.path}: {file.reason}" for file in tree.unmatched[:3])
            raise Refusal(
                field="file",
                value=name,
                message=f"No file in it matches a problem. {reasons}".strip(),
                remedy="Pack the folder solutions_... with files like 13_gemm_allreduce_cuda.py.",
            )
        with transaction.atomic():
            run = create_run(user, _wishes(tree.name, wishes))
            bulk = add_lines(run, _lines(archive, tree), by=user)
    return ImportResult(run=run, matched=tuple(tree.matched.values()), unmatched=tuple(tree.unmatched), bulk=bulk)


def tree_name(folder: str) -> TreeName | None:
    """What the folder's name says, or None where it is not called like a tree of solutions."""
    if not folder.startswith(_PREFIX):
        return None
    rest = folder.removeprefix(_PREFIX)
    # Backends may hold underscores themselves: the longest known one that fits is it.
    for word in sorted(_BACKENDS, key=len, reverse=True):
        if rest == word or rest.startswith(f"{word}_"):
            return _named(_BACKENDS[word], rest.removeprefix(word).lstrip("_"))
    return TreeName()


def _named(backend: str, rest: str) -> TreeName:
    """What stands behind the backend; the model is what is left at the end, underscores and all."""
    match = _AFTER_BACKEND.fullmatch(rest)
    if match is None:
        return TreeName(backend=backend)
    found = match.groupdict(default="")
    hardware = f"{found['hardware']}x{found['count']}" if found["count"] else found["hardware"]
    return TreeName(
        backend=backend,
        precision=found["precision"],
        hardware=hardware,
        provider=found["provider"],
        model=found["model"],
    )


def match_file(path: str) -> Matched | Unmatched:
    """The problem that a file of a tree is about: by its slug, else by its number."""
    file_name = PurePosixPath(path).name
    match = _FILE.fullmatch(file_name)
    if match is None:
        return Unmatched(path=path, reason="its name is not like <number>_<slug>_<backend>.py")
    number, slug = int(match["number"]), _without_backend(match["name"])
    by_slug = {problem.slug.lower(): problem for problem in registry.problems()}
    by_number = {problem.number: problem for problem in registry.problems()}
    found = by_slug.get(slug.lower()) or by_slug.get(match["name"].lower())
    if found is not None:
        note = f"numbered {number} there, {found.number} here" if number != found.number else ""
        return Matched(path=path, problem=found.slug, by="slug", note=note)
    if number in by_number:
        note = f"called {slug} there"
        return Matched(path=path, problem=by_number[number].slug, by="number", note=note)
    return Unmatched(path=path, reason=f"neither the slug {slug!r} nor the number {number} is a problem")


def _without_backend(name: str) -> str:
    for word in sorted(_BACKENDS, key=len, reverse=True):
        if name.endswith(f"_{word}"):
            return name.removesuffix(f"_{word}")
    return name


def _read_tree(archive: zipfile.ZipFile, *, name: str) -> _Tree:
    members = uploads.members_of(archive, name=name)
    folders = {part for member in members for part in PurePosixPath(member.filename).parts[:-1] if tree_name(part)}
    if len(folders) > 1:
        raise Refusal(
            field="file",
            value=", ".join(sorted(folders)),
            message="The archive holds several trees of solutions.",
            remedy="Import each as a run of its own.",
        )
    stem = PurePosixPath(name).name.removesuffix(".zip")
    tree = _Tree(name=tree_name(next(iter(folders), stem)) or TreeName())
    outcomes = [(member, match_file(member.filename)) for member in members]
    # A slug is surer than a number, so files that match by slug choose their problem first.
    for member, outcome in sorted(outcomes, key=lambda pair: isinstance(pair[1], Matched) and pair[1].by == "number"):
        if isinstance(outcome, Unmatched):
            tree.unmatched.append(outcome)
        elif outcome.problem in tree.matched:
            taken = tree.matched[outcome.problem].path
            reason = f"{outcome.problem} (by {outcome.by}) is taken by {taken}"
            tree.unmatched.append(Unmatched(path=outcome.path, reason=reason))
        else:
            tree.matched[outcome.problem] = outcome
            tree.members[outcome.problem] = member
    return tree


def _lines(archive: zipfile.ZipFile, tree: _Tree) -> Iterator[uploads.Line]:
    for number, (slug, member) in enumerate(sorted(tree.members.items()), start=1):
        text = uploads.read_member(archive, member).decode("utf-8", "surrogateescape")
        bundle, digest, fault = uploads.judged_by_text({SourceBundle.ENTRY: text})
        key = f"{slug}/0/0"
        attempt = uploads.NewAttempt(problem=slug, key=key, files=bundle, source_digest=digest, fault=fault)
        yield uploads.Line(number=number, key=key, attempt=attempt)


def _wishes(name: TreeName, given: Mapping[str, object]) -> RunWishes:
    precision = f"Imported from a tree of solutions; precision {name.precision}." if name.precision else ""
    wished = RunWishes(
        model=name.model,
        provider=name.provider,
        backend=name.backend or Backend.PYTORCH.value,
        profile=name.profile,
        mode=RunMode.SINGLE_SHOT.value,
        notes=precision or "Imported from a tree of solutions.",
    )
    wished = replace(wished, **{key: value for key, value in given.items() if value not in (None, "")})  # type: ignore[arg-type]  # the fields of RunWishes
    for missing, what in (("model", "model"), ("profile", "profile for the hardware")):
        if not getattr(wished, missing):
            raise Refusal(
                field=missing,
                value=name.hardware if missing == "profile" else "",
                message=f"The folder's name says no {what}.",
                remedy=f"Give the field {missing}"
                + (f": one of {', '.join(profiles.profiles())}." if missing == "profile" else "."),
            )
    return wished
