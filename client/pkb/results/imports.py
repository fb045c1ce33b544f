"""Solution trees that become runs."""

from ..errors import FieldError  # noqa: TID252 - the package is `pkb` once installed, and `client.pkb` here
from .result import Result
from .runs import BulkResult, Run


class Match(Result, frozen=True, kw_only=True):
    """A file of a solution tree and the problem that it was taken for."""

    path: str
    problem: str
    by: str
    note: str = ""
    backend: str = ""


class NoMatch(Result, frozen=True, kw_only=True):
    """A file of a solution tree that is for no problem here."""

    path: str
    reason: str


class TreeRun(Result, frozen=True, kw_only=True):
    """The run that a solution tree would become."""

    model: str
    version: str
    provider: str
    organisation: str | None = None
    backend: str
    profile: str
    notes: str


class ImportPreview(Result, frozen=True, kw_only=True):
    """What importing a solution tree would do; `lacking` names the fields that it still needs."""

    run: TreeRun
    backends: dict[str, int]
    matched: tuple[Match, ...]
    unmatched: tuple[NoMatch, ...]
    lacking: tuple[FieldError, ...]


class Import(Result, frozen=True, kw_only=True):
    """What became of a solution tree."""

    run: Run
    matched: tuple[Match, ...]
    unmatched: tuple[NoMatch, ...]
    bulk: BulkResult
