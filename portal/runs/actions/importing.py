"""A tree of solutions of the public benchmark becomes a run: first read and shown, then stored."""

import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import IO, Any

from django.db import transaction

from evaluator.contract import Backend, SourceBundle
from evaluator.hardware import profiles
from evaluator.judging.source_backend import judged_as, shown_backends
from portal.accounts.models import User
from portal.core.errors import Refusal, check_choice
from portal.core.helper import Helper
from portal.nodes.queries import online_slots
from portal.runs import uploads
from portal.runs.actions.attempt_intake import add_lines
from portal.runs.actions.creating import RunDeclaration, check_declaration, create_run
from portal.runs.models import RunMode
from portal.runs.solution_trees import Matched, TreeName, Unmatched, match_file, tree_name
from problems import registry

_helper = Helper(seconds=5)  # an ordinary tree of 87 programs takes less than one


@dataclass(frozen=True, kw_only=True)
class Program:
    """A file that becomes an attempt: its problem, and the backend that it is judged as."""

    match: Matched
    backend: Backend
    attempt: uploads.NewAttempt = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class ImportPreview:
    """What an import would do. `lacking` names the fields that it still needs."""

    name: TreeName
    declaration: RunDeclaration
    programs: tuple[Program, ...]
    unmatched: tuple[Unmatched, ...]
    lacking: tuple[Refusal, ...]

    @property
    def backends(self) -> dict[str, int]:
        return dict(Counter(program.backend.value for program in self.programs).most_common())


def read_tree(
    stream: IO[bytes], *, name: str, declaration: Mapping[str, object], problems: str = "", program_backend: str = ""
) -> ImportPreview:
    """What importing the zip would do; nothing is stored. What `declaration` leaves out comes from the folder's name.

    Args:
        stream: the zip.
        name: its name.
        declaration: what the uploader says of the run.
        problems: `FILE=SLUG` for each file whose name does not say its problem, separated by commas.
        program_backend: the backend to judge every program as, whatever its text shows; empty for what it shows.

    Raises:
        Refusal: the zip cannot be read, holds several trees or no file that matches a problem, or a choice is unknown.
    """
    chosen = _chosen_problems(problems)
    with uploads.opened(stream, name=name) as archive:
        members = uploads.members_of(archive, name=name)
        folder = _folder(members, name=name)
        _check_chosen_files(chosen, members)
        matched, unmatched = _assigned(members, chosen)
        if not matched:
            reasons = "; ".join(f"{file.path}: {file.reason}" for file in unmatched[:3])
            remedy = "Pack the folder solutions_... with files like 13_gemm_allreduce_cuda.py."
            raise Refusal("file", name, f"No file in it matches a problem. {reasons}".strip(), remedy)
        wanted = _declaration(folder, declaration)
        given = _backend("program_backend", program_backend) if program_backend else None
        programs = tuple(_programs(archive, matched, asked=_backend("backend", wanted.backend), given=given))
    lacking = tuple(_lacking(folder, wanted))
    return ImportPreview(
        name=folder, declaration=wanted, programs=programs, unmatched=tuple(unmatched), lacking=lacking
    )


def import_tree(user: User, stream: IO[bytes], **tree: Any) -> dict[str, Any]:
    """Make a run of the solutions in a zip; `tree` is what `read_tree` takes.

    Returns the `run`, what was `understood` of the zip, and what became of each attempt (`bulk`).

    Raises:
        Refusal: as `read_tree`, `create_run` and `add_lines`, or something that a run needs is said neither by the
            folder's name nor by `declaration`.
    """
    understood = read_tree(stream, **tree)
    if understood.lacking:
        raise understood.lacking[0]
    with transaction.atomic():
        run = create_run(user, understood.declaration)
        attempts = enumerate((program.attempt for program in understood.programs), start=1)
        lines = (uploads.Line(number=number, key=attempt.key, attempt=attempt) for number, attempt in attempts)
        bulk = add_lines(run, lines, by=user)
    return {"run": run, "understood": understood, "bulk": bulk}


def _folder(members: Sequence[zipfile.ZipInfo], *, name: str) -> TreeName:
    folders = {part for member in members for part in PurePosixPath(member.filename).parts[:-1] if tree_name(part)}
    if len(folders) > 1:
        names = ", ".join(sorted(folders))
        raise Refusal("file", names, "The archive holds several trees of solutions.", "Import each as its own run.")
    stem = PurePosixPath(name).name.removesuffix(".zip")
    return tree_name(next(iter(folders), stem)) or TreeName()


def _chosen_problems(text: str) -> dict[str, str]:
    """Slugs by file name from `FILE=SLUG,FILE=SLUG`."""
    known = {problem.slug for problem in registry.problems()}
    chosen = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        file_name, _, slug = pair.rpartition("=")
        if not file_name or slug not in known:
            remedy = "Write it as 12_my_name_cuda.py=allgather_gemm; /problems/ lists the slugs."
            raise Refusal("problems", pair, "This is not FILE=SLUG with the slug of a problem.", remedy)
        chosen[file_name] = slug
    return chosen


def _check_chosen_files(chosen: Mapping[str, str], members: Sequence[zipfile.ZipInfo]) -> None:
    names = {PurePosixPath(member.filename).name for member in members}
    for file_name in chosen:
        if file_name not in names:
            remedy = "Write the name as in the tree, without folders."
            raise Refusal("problems", file_name, "The tree holds no file of this name.", remedy)


def _assigned(
    members: Sequence[zipfile.ZipInfo], chosen: Mapping[str, str]
) -> tuple[list[tuple[Matched, zipfile.ZipInfo]], list[Unmatched]]:
    """Each problem's file, and the files without a problem. A choice goes before a slug, a slug before another name."""
    order = ("choice", "slug", "name")
    outcomes = [(match_file(member.filename, chosen), member) for member in members]
    unmatched = [outcome for outcome, _ in outcomes if isinstance(outcome, Unmatched)]
    found = [(outcome, member) for outcome, member in outcomes if isinstance(outcome, Matched)]
    taken: dict[str, tuple[Matched, zipfile.ZipInfo]] = {}
    for match, member in sorted(found, key=lambda pair: order.index(pair[0].by)):
        first, _ = taken.setdefault(match.problem, (match, member))
        if first is not match:
            reason = f"{match.problem} (by {match.by}) is taken by {first.path}"
            unmatched.append(Unmatched(path=match.path, reason=reason))
    return [taken[slug] for slug in sorted(taken)], unmatched


def _programs(
    archive: zipfile.ZipFile,
    matched: Sequence[tuple[Matched, zipfile.ZipInfo]],
    *,
    asked: Backend,
    given: Backend | None,
) -> Iterator[Program]:
    texts = (uploads.read_member(archive, member).decode("utf-8", "surrogateescape") for _, member in matched)
    read = [uploads.static_verdict({SourceBundle.ENTRY: text}) for text in texts]
    bundles = [bundle for bundle, _, _ in read if bundle is not None]
    shown = iter(() if given else _shown(bundles))
    for (match, _), (bundle, digest, fault) in zip(matched, read, strict=True):
        backend = given or (judged_as(next(shown), asked=asked) if bundle is not None else asked)
        attempt = uploads.NewAttempt(
            problem=match.problem,
            key=f"{match.problem}/0/0",
            files=bundle,
            source_digest=digest,
            fault=fault,
            backend=backend.value,
        )
        yield Program(match=match, backend=backend, attempt=attempt)


def _shown(bundles: Sequence[SourceBundle]) -> list[tuple[Backend, ...]]:
    """The backends that each text shows; raises Refusal where reading them all would take too long."""
    found = _helper.each(shown_backends, bundles)
    if len(found) < len(bundles):
        message = "Finding out what the programs are written in takes too long."
        remedy = "Give the field program_backend, or try again when the site has less to do."
        raise Refusal("program_backend", "", message, remedy)
    return found


def _backend(name: str, value: str) -> Backend:
    return Backend(check_choice(name, value, Backend, noun="backend"))


def _declaration(name: TreeName, given: Mapping[str, object]) -> RunDeclaration:
    precision = f"; precision {name.precision}" if name.precision else ""
    fitting = name.profiles
    wished = RunDeclaration(
        model=name.model,
        provider=name.provider,
        backend=name.backend or Backend.PYTORCH.value,
        profile=fitting[0] if len(fitting) == 1 else "",
        mode=RunMode.SINGLE_SHOT.value,
        notes=f"Imported from a tree of solutions{precision}.",
    )
    return replace(wished, **{key: value for key, value in given.items() if value not in (None, "")})  # type: ignore[arg-type]  # the fields of RunDeclaration


def _lacking(name: TreeName, declaration: RunDeclaration) -> Iterator[Refusal]:
    if not declaration.model:
        yield Refusal("model", "", "The folder's name has no model.", "Give the field model.")
    if declaration.profile:
        if declaration.model:
            try:
                check_declaration(declaration)
            except Refusal as refusal:
                yield refusal
        return
    hardware = " ".join(filter(None, (name.hardware, name.ranks and f"with {name.ranks} ranks")))
    if name.profiles:
        message = f"{hardware} in the folder's name matches more than one profile here."
        choice = f"one of {', '.join(name.profiles)}"
    else:
        message = f"No profile here is {hardware}." if hardware else "The folder's name has no hardware."
        choice = f"one of {', '.join(profiles.profiles())}"
    yield Refusal("profile", hardware, message, f"Give the field profile: {choice}.{_online()}")


def _online() -> str:
    """Which profiles can be judged right now, as a sentence; empty if no node is online."""
    names = sorted(set(online_slots().values_list("profile", flat=True)))
    return f" Nodes are online for {', '.join(names)}." if names else ""
