"""Reads of the boards of problems."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import CharField, F, OuterRef, Q, QuerySet, Subquery

from evaluator.contract import SCORE_RULE
from evaluator.hardware import profiles
from portal.accounts.models import User
from portal.catalog.size_times import SizeTime, from_stored, mean_utilisation
from portal.kept_statements import Given, KeptStatement
from portal.ranking.models import Board, Record, SizeStanding, Standing
from portal.ranking.order import beyond, board_order, reverse_of
from portal.ranking.paging import Order, Part, part
from portal.submissions.models import Evaluation, Visibility, recorded_mark
from portal.submissions.queries import quarantined
from problems import registry


@dataclass(frozen=True, kw_only=True)
class BoardRow:
    """One line of a board.

    `place` is None on practice boards, which do not order by speed. `overlaps_above` marks an entry whose interval
    overlaps that of the entry above: the difference is not significant. `score`, `low` and `high` are those of the
    board's size where it shows one. `recorded` is the mark of what was judged elsewhere.
    """

    place: int | None
    author: str
    backend: str
    score: float
    low: float
    high: float
    overlaps_above: bool
    submitted_at: datetime
    submission_id: uuid.UUID
    evaluation_id: uuid.UUID
    is_source_public: bool
    sizes: tuple[SizeTime, ...]
    primitives: tuple[str, ...]
    size: str | None = None
    recorded: str = ""

    @property
    def shown_sizes(self) -> tuple[SizeTime, ...]:
        """The sizes that the board is about: all, or the one that it is ordered by."""
        return self.sizes if self.size is None else tuple(size for size in self.sizes if size.size == self.size)

    @property
    def utilisation(self) -> float | None:
        """Floor over time, the geometric mean over the sizes shown; None where one of them has no floor."""
        return mean_utilisation(self.shown_sizes)


@dataclass(frozen=True, kw_only=True)
class BoardPage:
    """A part of a board, best first; `after` and `before` lead on and back, None where there is nothing."""

    rows: tuple[BoardRow, ...]
    after: str | None
    before: str | None
    is_first: bool


@dataclass(frozen=True, kw_only=True)
class BoardKey:
    """Which board, and which of its entries: None means all backends, all sizes together, any primitives.

    A board is of one scoring rule: entries of two rules are never in one order.
    """

    problem: str
    profile: str
    revision: str
    backend: str | None = None
    size: str | None = None
    primitive: str | None = None
    rule: int = SCORE_RULE

    @property
    def is_narrowed(self) -> bool:
        """Whether only some of the board's entries are meant."""
        return self.backend is not None or self.primitive is not None

    @property
    def is_ranked_by_speed(self) -> bool:
        """Whether the board orders by speed."""
        return profiles.get(self.profile).is_ranked_by_speed

    @property
    def order(self) -> tuple[str, ...]:
        """The columns by which it is ordered."""
        return board_order(is_ranked_by_speed=self.is_ranked_by_speed)


def board(
    problem_slug: str,
    *,
    profile: str,
    backend: str | None = None,
    revision: str | None = None,
    limit: int | None = None,
) -> tuple[BoardRow, ...]:
    """The board of a problem on a profile, best first, at most `limit` entries of it.

    `backend` None ranks all backends together; `revision` None means the problem as it is now, an older one is the
    archive. Authors whose account is closed are left out.

    Raises:
        problems.registry.UnknownProblem, evaluator.hardware.profiles.UnknownProfile.
    """
    key = BoardKey(
        problem=problem_slug,
        profile=profile,
        backend=backend,
        revision=revision or registry.revision(problem_slug),
    )
    entries = _read(_entries(key), key, columns=key.order, limit=limit)
    return tuple(_rows(key, entries, ahead=0, low_above=None))


def entry_of(problem_slug: str, *, profile: str, username: str) -> BoardRow | None:
    """An author's row of the board of a problem on a profile, with its place; None if there is no such entry.

    At most two queries: the entry, and how many are ahead of it. `overlaps_above` is not looked up.
    """
    key = BoardKey(problem=problem_slug, profile=profile, revision=registry.revision(problem_slug))
    entries = _entries(key)
    own = _read(entries.filter(author__username=username), key, columns=key.order, limit=1)
    if not own:
        return None
    ahead = entries.filter(beyond(reverse_of(key.order), _order(key).values(own[0]))).count()
    return next(iter(_rows(key, own, ahead=ahead, low_above=None)))


def board_page(key: BoardKey, *, after: str = "", before: str = "", rows: int) -> BoardPage:
    """The part of a board that begins after the row that `after` names, or ends before that of `before`.

    Two queries, or one for the first part: the rows, and how many are ahead of them. Raises Refusal.
    """
    found = part(_entries(key), _order(key), after=after, before=before, rows=rows, counts=key.is_ranked_by_speed)
    low_above = found.above[0] if found.above is not None and key.is_ranked_by_speed else None
    return BoardPage(
        rows=tuple(_rows(key, found.rows, ahead=found.ahead, low_above=low_above)),
        after=found.after,
        before=found.before,
        is_first=found.is_first,
    )


def _order(key: BoardKey) -> Order[Mapping[str, Any]]:
    return Order(
        columns=key.order,
        kinds=(float, datetime, int) if key.is_ranked_by_speed else (datetime, int),
        values=lambda entry: [entry[name.lstrip("-")] for name in key.order],
        read=lambda entries, columns, limit: _read(entries.order_by(*columns), key, columns=columns, limit=limit),
    )


@dataclass(frozen=True, kw_only=True)
class EarlierEntry:
    """An entry scored by an earlier rule: it has no place, and is not comparable with entries by the current rule."""

    author: str
    backend: str
    profile: str
    problem: str
    score: float
    low: float
    high: float
    rule: int
    submitted_at: datetime
    judged_at: datetime
    submission_id: uuid.UUID
    is_source_public: bool
    recorded: str = ""


EARLIER_SHOWN = 50


@dataclass(frozen=True, kw_only=True)
class QuarantinedEntry:
    """An entry that an operator removed from its boards: it has no place, and its page stays."""

    author: str
    problem: str
    profile: str
    submission_id: uuid.UUID
    is_source_public: bool
    reason: str
    at: datetime


def quarantined_entries(key: BoardKey) -> tuple[QuarantinedEntry, ...]:
    """What operators took off a board and its earlier ones, the last first, up to `EARLIER_SHOWN`."""
    return _quarantined(
        Q(submission__problem=key.problem),
        {"problem_revision": key.revision, "profile": key.profile},
    )


def quarantined_entries_of(person: User) -> tuple[QuarantinedEntry, ...]:
    """What operators took off boards of `person`'s, the last first, up to `EARLIER_SHOWN`."""
    return _quarantined(Q(submission__author=person), {})


def _quarantined(about: Q, judged: dict[str, str]) -> tuple[QuarantinedEntry, ...]:
    passed = Evaluation.objects.filter(
        submission=OuterRef("submission"), state="finished", verdict="PASSED", mode="ranked", **judged
    )
    found = (
        quarantined()
        .filter(about, submission__author__is_active=True)
        .annotate(profile=Subquery(passed.order_by("-finished_at").values("profile")[:1]))
    )
    return tuple(
        QuarantinedEntry(
            author=row.submission.author.username,
            problem=row.submission.problem,
            profile=row.profile,
            submission_id=row.submission_id,
            is_source_public=row.submission.visibility == Visibility.PUBLIC,
            reason=row.reason,
            at=row.at,
        )
        for row in found.exclude(profile=None)
        .select_related("submission__author")
        .order_by("-at", "-id")[:EARLIER_SHOWN]
    )


def earlier_entries(key: BoardKey) -> tuple[EarlierEntry, ...]:
    """The entries of a board that earlier rules scored, the last judged first, up to `EARLIER_SHOWN`."""
    chosen = Standing.objects.filter(problem=key.problem, problem_revision=key.revision, profile=key.profile)
    if key.backend is not None:
        chosen = chosen.filter(backend=key.backend)
    return read_earlier(chosen)


def read_earlier(standings: QuerySet[Standing]) -> tuple[EarlierEntry, ...]:
    """Entries by earlier rules, of open accounts, the last judged first, up to `EARLIER_SHOWN`."""
    found = standings.filter(score_rule__lt=SCORE_RULE, author__is_active=True)
    ordered = found.select_related("author", "evaluation__submission").order_by("-evaluation__finished_at", "-id")
    return tuple(_earlier(standing) for standing in ordered[:EARLIER_SHOWN])


def earlier_entries_of(problem_slug: str) -> tuple[EarlierEntry, ...]:
    """The entries by earlier rules at the problem's current revision, on all profiles, the last judged first."""
    revision = registry.revision(problem_slug)
    # Few problems have any: whether this one has costs no more than an index's page.
    if not any(rule < SCORE_RULE for _, rule, _ in _BOARDS.rows(problem=problem_slug, revision=revision)):
        return ()
    return read_earlier(Standing.objects.filter(problem=problem_slug, problem_revision=revision))


_BOARDS = KeptStatement(
    lambda: Board.objects.filter(
        problem=Given("problem", CharField()), problem_revision=Given("revision", CharField()), entries__gt=0
    ).values_list("profile", "score_rule", "entries")
)


def earlier_records_of(problem_slug: str, *, profile: str) -> tuple[EarlierEntry, ...]:
    """The records of a board under earlier rules, the last one first, up to `EARLIER_SHOWN`."""
    found = Record.objects.filter(
        problem=problem_slug,
        problem_revision=registry.revision(problem_slug),
        profile=profile,
        score_rule__lt=SCORE_RULE,
        author__is_active=True,
    )
    ordered = found.select_related("author", "evaluation__submission").order_by("-reached_at", "-id")
    return tuple(_earlier(record) for record in ordered[:EARLIER_SHOWN])


def _earlier(row: Standing | Record) -> EarlierEntry:
    submission = row.evaluation.submission
    return EarlierEntry(
        author=row.author.username,
        backend=row.backend,
        profile=row.profile,
        problem=row.problem,
        score=row.score,
        low=row.score_low,
        high=row.score_high,
        rule=row.score_rule,
        submitted_at=submission.created_at,
        judged_at=row.evaluation.finished_at or submission.created_at,
        submission_id=submission.pk,
        is_source_public=submission.visibility == Visibility.PUBLIC,
        recorded=row.evaluation.recorded,
    )


def latest_earlier_entries(count: int) -> tuple[EarlierEntry, ...]:
    """The entries by earlier rules at the problems' current revisions, the last judged first."""
    current = [registry.revision(problem.slug) for problem in registry.problems()]
    boards = Board.objects.filter(problem_revision__in=current, score_rule__lt=SCORE_RULE, entries__gt=0)
    # By way of the boards, which are few: no index leads to standings by rule or revision alone.
    held = set(boards.values_list("problem", "problem_revision"))
    if not held:
        return ()
    slugs, revisions = zip(*held, strict=True)
    return read_earlier(Standing.objects.filter(problem__in=slugs, problem_revision__in=revisions))[:count]


def boards_of(problem_slug: str, *, revision: str | None = None) -> dict[str, int]:
    """How many entries the problem's boards have, by profile, in the order of the profiles; empty ones left out."""
    rows = _BOARDS.rows(problem=problem_slug, revision=revision or registry.revision(problem_slug))
    found = {profile: entries for profile, rule, entries in rows if rule == SCORE_RULE}
    return {name: found[name] for name in profiles.profiles() if name in found}


def earlier_boards_of(problem_slug: str) -> tuple[str, ...]:
    """The profiles with entries by earlier rules at the problem's current revision, in the order of the profiles."""
    rows = Standing.objects.filter(problem=problem_slug, problem_revision=registry.revision(problem_slug))
    found = set(rows.filter(score_rule__lt=SCORE_RULE, author__is_active=True).values_list("profile", flat=True))
    return tuple(name for name in profiles.profiles() if name in found)


def profiles_with_entries(problem_slug: str, *, revision: str | None = None) -> tuple[str, ...]:
    """The profiles on which the problem has at least one entry, in the order of the profiles."""
    return tuple(boards_of(problem_slug, revision=revision))


def records_of(problem_slug: str, *, profile: str) -> tuple[Record, ...]:
    """The records of a board at the problem's current revision by the current rule, the first one first."""
    found = Record.objects.filter(
        problem=problem_slug,
        problem_revision=registry.revision(problem_slug),
        profile=profile,
        score_rule=SCORE_RULE,
        author__is_active=True,
    )
    return tuple(found.select_related("author", "evaluation__submission").order_by("reached_at", "id"))


def latest_records(*, profile: str | None = None) -> QuerySet[Record]:
    """The records of all boards at the problems' current revisions by the current rule, newest first."""
    current = [registry.revision(problem.slug) for problem in registry.problems()]
    found = Record.objects.filter(problem_revision__in=current, score_rule=SCORE_RULE, author__is_active=True)
    if profile is not None:
        found = found.filter(profile=profile)
    return found.select_related("author", "evaluation__submission").order_by(*RECORDS_ORDER)


RECORDS_ORDER = ("-reached_at", "-id")


def records_page(*, profile: str | None = None, after: str = "", before: str = "", rows: int) -> Part[Record]:
    """The part of the records of all boards that the cursors ask for, the newest first; raises Refusal."""
    order = Order[Record](
        columns=RECORDS_ORDER,
        kinds=(datetime, int),
        values=lambda record: [record.reached_at, record.pk],
        read=lambda records, columns, limit: list(records.order_by(*columns)[:limit]),
    )
    return part(latest_records(profile=profile), order, after=after, before=before, rows=rows, counts=False)


# What a line of a board is made of: its own columns, and those of its standing.
_OWN = ("id", "backend", "score", "score_low", "score_high", "submitted_at")
_OF_STANDING = (
    "author__username",
    "evaluation_id",
    "evaluation__submission_id",
    "evaluation__submission__visibility",
    "evaluation__recorded_on",
    "evaluation__recorded_where",
    "sizes",
    "primitives",
)


def latest_entries(count: int, *, is_ranked_by_speed: bool) -> list[Standing]:
    """The standings that were submitted last on such profiles, of authors whose account is open."""
    chosen = [name for name, each in profiles.profiles().items() if each.is_ranked_by_speed is is_ranked_by_speed]
    found = Standing.objects.filter(score_rule=SCORE_RULE, author__is_active=True, profile__in=chosen)
    return list(found.select_related("author", "evaluation").order_by("-submitted_at", "-id")[:count])


def _entries(key: BoardKey) -> QuerySet[Any, Any]:
    """The rows of a board in its order: standings, or their rows at one size."""
    chosen = {"problem": key.problem, "problem_revision": key.revision, "profile": key.profile, "score_rule": key.rule}
    if key.backend is not None:
        chosen["backend"] = key.backend
    # Closed accounts are few: leaving them out is much cheaper than asking for every entry whether its account is open.
    closed = User.objects.filter(is_active=False).values("pk")
    if key.size is not None:
        chosen["size"] = key.size
    if key.primitive is not None:
        # A list of names as the database writes it; both databases find a quoted name in its text.
        held = "primitives" if key.size is None else "standing__primitives"
        chosen[f"{held}__icontains"] = f'"{key.primitive}"'
    model = Standing if key.size is None else SizeStanding
    return model.objects.filter(**chosen).exclude(author__in=closed).order_by(*key.order)


def _read(
    entries: QuerySet[Any, Any], key: BoardKey, *, columns: tuple[str, ...], limit: int | None
) -> list[Mapping[str, Any]]:
    """The first `limit` entries with all that a line shows.

    Which rows they are is found first, by the index of the order alone: joining before would read the whole board.
    """
    if limit is not None:
        first = entries.values("pk")[:limit]
        entries = entries.model.objects.filter(pk__in=first).order_by(*columns)
    prefix = "" if key.size is None else "standing__"
    return list(entries.values(*_OWN, **{f"of_{name}": F(f"{prefix}{name}") for name in _OF_STANDING}))


def _rows(
    key: BoardKey, entries: Iterable[Mapping[str, Any]], *, ahead: int, low_above: float | None
) -> Iterable[BoardRow]:
    by_speed = key.is_ranked_by_speed
    for place, entry in enumerate(entries, start=ahead + 1):
        overlaps = by_speed and low_above is not None and entry["score_high"] >= low_above
        yield _row(entry, key=key, place=place if by_speed else None, overlaps_above=overlaps)
        low_above = entry["score_low"]


def _row(entry: Mapping[str, Any], *, key: BoardKey, place: int | None, overlaps_above: bool) -> BoardRow:
    return BoardRow(
        place=place,
        author=entry["of_author__username"],
        backend=entry["backend"],
        score=entry["score"],
        low=entry["score_low"],
        high=entry["score_high"],
        overlaps_above=overlaps_above,
        submitted_at=entry["submitted_at"],
        submission_id=entry["of_evaluation__submission_id"],
        evaluation_id=entry["of_evaluation_id"],
        is_source_public=entry["of_evaluation__submission__visibility"] == Visibility.PUBLIC,
        sizes=from_stored(entry["of_sizes"]),
        primitives=tuple(entry["of_primitives"]),
        size=key.size,
        recorded=recorded_mark(entry["of_evaluation__recorded_on"], entry["of_evaluation__recorded_where"]),
    )
