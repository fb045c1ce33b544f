"""The problems as a data set: one prompt per problem, from a site's API or from a file of JSON Lines."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from .client import Client
from .credentials import site_and_token
from .errors import UsageError
from .results import ProblemBrief

EVERY = "all"


class PromptRow(msgspec.Struct, frozen=True, kw_only=True):
    """One problem as a model is asked for it: a line of the file.

    Attributes:
        problem: its slug.
        revision: of everything that affects an evaluation of the problem.
        version, digest: which of the site's prompts `text` is, and its SHA-256.
        splits: the parts of the benchmark that hold it: its entries in the site's taxonomy.
    """

    problem: str
    revision: str
    backend: str
    profile: str
    version: str
    digest: str
    text: str
    splits: list[str] = []


def rows_of(
    file: str | Path | None,
    site: str | None,
    *,
    profile: str,
    backend: str,
    version: str | None,
    say: Callable[[str], None] = lambda _text: None,
) -> list[PromptRow]:
    """The rows of a file if one is named, else those of a site, by default that of `pkb login`.

    Raises:
        PkbError: neither can be read, or they hold nothing for the profile and backend.
    """
    if file:
        return from_file(Path(file), profile=profile, backend=backend)
    address, token = site_and_token(site or os.environ.get("PKB_SITE"), os.environ.get("PKB_TOKEN"))
    with Client(address, token=token, say=say) as client:
        return from_site(client, profile=profile, backend=backend, version=version)


def from_site(site: Client, *, profile: str, backend: str = "pytorch", version: str | None = None) -> list[PromptRow]:
    """A row for every open problem that the profile runs, by number; raises UsageError where there is none."""
    able = [problem for problem in site.problems() if profile in problem.profiles and problem.is_open]
    if not able:
        raise UsageError(f"No problem runs on {profile!r}; there is no such profile, or every problem is paused.")
    rows = []
    for problem in able:
        prompt = site.prompt(problem.slug, backend=backend, profile=profile, version=version)
        fields = {name: getattr(prompt, name) for name in PromptRow.__struct_fields__ if name != "splits"}
        rows.append(PromptRow(**fields, splits=_splits(problem)))
    return rows


def from_file(path: Path, *, profile: str, backend: str = "pytorch") -> list[PromptRow]:
    """The rows of a file that are for a profile and backend; raises UsageError that names the line at fault."""
    rows = []
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from error
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(msgspec.json.decode(line, type=PromptRow))
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise UsageError(
                f"{path}, line {number} is not a prompt: {error}. `pkb prompts` writes such files."
            ) from error
    fitting = [row for row in rows if (row.profile, row.backend) == (profile, backend)]
    if not fitting:
        there = ", ".join(sorted({f"{row.backend} on {row.profile}" for row in rows})) or "no prompt"
        raise UsageError(f"{path} holds {there}, not {backend} on {profile}.")
    return fitting


def chosen(
    rows: Sequence[PromptRow], *, split: str = EVERY, problems: str | Iterable[str] | None = None
) -> list[PromptRow]:
    """The rows of a split, and of these the problems that are named (a list, or slugs with commas between them).

    Raises:
        UsageError: there is no such split or problem; the message lists those that there are.
    """
    splits = sorted({name for row in rows for name in row.splits})
    if split not in {EVERY, *splits}:
        raise UsageError(f"There is no split {split!r}. Choose {', '.join([EVERY, *splits])}.")
    wanted = problems.split(",") if isinstance(problems, str) else list(problems or ())
    unknown = set(wanted) - {row.problem for row in rows}
    if unknown:
        raise UsageError(f"The data set has no problem {', '.join(sorted(unknown))}.")
    in_split = [row for row in rows if split in {EVERY, *row.splits}]
    return [row for row in in_split if not wanted or row.problem in wanted]


def _splits(problem: ProblemBrief) -> list[str]:
    axes = [*problem.parallelism, *problem.communication, problem.block, *problem.stage, problem.domain]
    return sorted({entry for entry in axes if entry})
