"""Reads of the boards of problems."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery, Value

from evaluator.contract import SCORE_RULE, Backend, is_faster
from evaluator.hardware import profiles
from portal.accounts.models import User, Viewer
from portal.catalog import measurements
from portal.catalog.rooflines import Entry
from portal.catalog.size_times import BACK_TO_BACK, SizeTime, from_stored, mean_utilisation
from portal.core.pagination import Ordering, Page, beyond, page_of, reverse_of
from portal.ranking.models import Board, Record, Standing, board_order
from portal.submissions.models import Evaluation, Submission, Visibility, recorded_mark
from portal.submissions.queries import accepted, quarantined
from problems import registry


@dataclass(frozen=True, kw_only=True)
class BoardRow(Entry):
    """One line of a board.

    `place` is None on practice boards, which do not order by speed. `overlaps_above` marks an entry whose interval
    overlaps that of the entry above: the difference is not significant. `score`, `low` and `high` are those of the
    board's size where it shows one. `recorded` is the mark of what was judged elsewhere. Of a board's leader the row
    says how many `entries` the board has. `warm` is the speedup of all sizes by calls back to back on unchanging
    inputs, where both were measured so; it has no interval.
    """

    problem: str
    profile: str
    place: int | None
    score: float
    low: float
    high: float
    overlaps_above: bool
    submitted_at: datetime
    evaluation_id: uuid.UUID
    primitives: tuple[str, ...]
    size: str | None = None
    recorded: str = ""
    entries: int = 0
    warm: float | None = None

    @property
    def is_ranked_by_speed(self) -> bool:
        return profiles.get(self.profile).is_ranked_by_speed

    @property
    def rests_on(self) -> str:
        """What the factor of a recorded entry rests on, in a few words; empty where nothing is said of it."""
        return measurements.rests_on().get(self.problem, {}).get("words", "") if self.recorded else ""

    @property
    def is_faster(self) -> bool:
        """Whether it is significantly faster: the whole interval is above 1, on a board ranked by speed."""
        return self.is_ranked_by_speed and is_faster(self.low)

    @property
    def shown_sizes(self) -> tuple[SizeTime, ...]:
        """The sizes that the board is about: all, or the one that it is ordered by."""
        return self.sizes if self.size is None else tuple(size for size in self.sizes if size.size == self.size)

    @property
    def utilisation(self) -> float | None:
        """Floor over time, the geometric mean over the sizes shown; None where one of them has no floor."""
        return mean_utilisation(self.shown_sizes)


@dataclass(frozen=True, kw_only=True)
class BoardKey:
    """Which board, and which of its entries: None means all backends, all sizes together, any primitives.

    A board is of the current scoring rule: entries of two rules are never in one order.
    """

    problem: str
    profile: str
    revision: str
    backend: str | None = None
    size: str | None = None
    primitive: str | None = None

    @property
    def is_narrowed(self) -> bool:
        """Whether only some of the board's entries are meant."""
        return self.backend is not None or self.primitive is not None

    @property
    def is_ranked_by_speed(self) -> bool:
        return profiles.get(self.profile).is_ranked_by_speed

    @property
    def order(self) -> tuple[str, ...]:
        return board_order(is_ranked_by_speed=self.is_ranked_by_speed, size=self.size)


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
    return tuple(_rows(key, _read(_entries(key), key, columns=key.order, limit=limit), ahead=0, low_above=None))


def places_of(person: User, *, most: int) -> list[BoardRow]:
    """The rows of the largest speedups of `person` on boards that speed orders, one of a board, the best place first.

    Three queries: which entries, all of these, and how many are ahead of each. `overlaps_above` is not looked up.
    """
    by_speed = [name for name, profile in profiles.profiles().items() if profile.is_ranked_by_speed]
    order = board_order(is_ranked_by_speed=True)
    own = Standing.objects.filter(author=person, profile__in=by_speed, **current()).order_by(*order)
    best: dict[BoardKey, int] = {}
    # On a board a person has one standing per backend.
    for slug, profile, pk in own.values_list("problem", "profile", "pk")[: most * len(Backend)]:
        best.setdefault(BoardKey(problem=slug, profile=profile, revision=registry.revision(slug)), pk)
    read = {row["id"]: row for row in Standing.objects.filter(pk__in=list(best.values())[:most]).values(*COLUMNS)}
    chosen = [(key, read[pk]) for key, pk in best.items() if pk in read]
    ahead = [
        _entries(key)
        .order_by()
        .filter(beyond(reverse_of(order), _order(key).values(entry)))
        .values(board=Value(number))
        .annotate(count=Count("pk"))
        for number, (key, entry) in enumerate(chosen)
    ]
    counts = {row["board"]: row["count"] for row in ahead[0].union(*ahead[1:], all=True)} if ahead else {}
    rows = [board_row(entry, place=counts.get(number, 0) + 1) for number, (_, entry) in enumerate(chosen)]
    return sorted(rows, key=lambda row: row.place or 0)


LOOKED_BACK = 100
"""Among how many submissions the attempt before is looked for: somebody may have thousands to one problem."""


def place_of(evaluation: Evaluation) -> dict[str, Any] | None:
    """The place that `evaluation` gives its author; None where it counts on no board of this site's nodes.

    `number` is that of the author's best entry, `own`, in the order of the board, out of `entries`. `above` and
    `leader` are other entries, None at the top. `last` is the author's last accepted evaluation among the
    LOOKED_BACK submissions before this one.
    """
    submission = evaluation.submission
    is_entry = (evaluation.verdict, evaluation.mode, evaluation.score_rule) == ("PASSED", "ranked", SCORE_RULE)
    if not is_entry or submission.is_attempt or evaluation.node_owner_id is not None:
        return None
    key = BoardKey(problem=submission.problem, profile=evaluation.profile, revision=evaluation.problem_revision)
    # To read two columns of a whole board, of 2,110 entries at most so far, takes less time than it takes Django to
    # build the statements that would count its entries and find the nearest ones.
    every = list(_entries(key).values_list("pk", "author_id"))
    number = next((place for place, (_, author) in enumerate(every, 1) if author == submission.author_id), 0)
    shown = {place: every[place - 1][0] for place in (1, number - 1, number) if 0 < place <= number}
    read = {row["id"]: row for row in _read(Standing.objects.filter(pk__in=shown.values()), key)}
    rows = {
        place: board_row(read[pk], place=place if key.is_ranked_by_speed else None)
        for place, pk in shown.items()
        if pk in read
    }
    if not number or len(rows) < len(shown):  # an entry may have gone between the two
        return None
    before = Submission.objects.filter(
        problem=key.problem,
        author=submission.author_id,
        is_attempt=False,
        created_at__lt=submission.created_at,
    ).order_by("-created_at", "-id")
    earlier = accepted().filter(
        submission__in=before.values("pk")[:LOOKED_BACK],
        profile=key.profile,
        problem_revision=key.revision,
        score_rule=SCORE_RULE,
    )
    return {
        "own": rows[number],
        "number": number,
        "entries": len(every),
        "above": rows.get(number - 1),
        "leader": rows.get(1) if number > 1 else None,
        "last": earlier.order_by("-submission__created_at")
        .values("submission_id", "score", "score_low", "score_high")
        .first(),
    }


def board_page(key: BoardKey, *, after: str = "", before: str = "", rows: int) -> Page[BoardRow]:
    """The part of a board that begins after the row that `after` names, or ends before that of `before`.

    Two queries, or one for the first part: the rows, and how many are ahead of them. Raises Refusal.
    """
    found = page_of(_entries(key), _order(key), after=after, before=before, rows=rows, counts=key.is_ranked_by_speed)
    low_above = found.above[0] if found.above is not None and key.is_ranked_by_speed else None
    return found.showing(_rows(key, found.rows, ahead=found.ahead, low_above=low_above))


def _order(key: BoardKey) -> Ordering[Mapping[str, Any]]:
    return Ordering(
        columns=key.order,
        read=lambda entries, columns, limit: _read(entries.order_by(*columns), key, columns=columns, limit=limit),
    )


QUARANTINED_SHOWN = 50


def quarantined_entries(key: BoardKey) -> Sequence[Mapping[str, object]]:
    """What operators took off a board, the last first, up to `QUARANTINED_SHOWN`."""
    return _quarantined(Q(submission__problem=key.problem), problem_revision=key.revision, profile=key.profile)


def quarantined_entries_of(person: User) -> Sequence[Mapping[str, object]]:
    """What operators took off boards of `person`'s, the last first, up to `QUARANTINED_SHOWN`."""
    return _quarantined(Q(submission__author=person))


def _quarantined(about: Q, **judged: str) -> Sequence[Mapping[str, object]]:
    """Entries that an operator removed from their boards: they have no place, and their pages stay."""
    found = quarantined().filter(about, submission__author__is_active=True)
    if not found.exists():  # as nearly everywhere; the statement below is long
        return ()
    passed = Evaluation.objects.filter(
        submission=OuterRef("submission"), state="finished", verdict="PASSED", mode="ranked", **judged
    )
    shown = (
        found.annotate(profile=Subquery(passed.order_by("-finished_at").values("profile")[:1]))
        .exclude(profile=None)
        .order_by("-at", "-id")
        .values(
            "profile",
            "submission_id",
            "reason",
            "at",
            author=F("submission__author__username"),
            problem=F("submission__problem"),
            is_source_public=Q(submission__visibility=Visibility.PUBLIC),
        )
    )
    return list(shown[:QUARANTINED_SHOWN])


def boards_of(problem_slug: str) -> dict[str, int]:
    """How many entries the problem's boards have, by profile, in the order of the profiles; empty ones left out."""
    boards = Board.objects.filter(problem=problem_slug, entries__gt=0, **current(problem_slug))
    found = dict(boards.values_list("profile", "entries"))
    return {name: found[name] for name in profiles.profiles() if name in found}


def current(problem: str | None = None) -> dict[str, Any]:
    """What rows about the problems as they are now, or about one of them, have in common; by the current rule."""
    slugs = [each.slug for each in registry.problems()] if problem is None else [problem]
    # A revision is a hash of its own problem's files: no other problem has it.
    return {"problem_revision__in": [registry.revision(slug) for slug in slugs], "score_rule": SCORE_RULE}


def solved_by(viewer: Viewer) -> frozenset[str]:
    """The problems of which the viewer has an accepted entry, on any profile at the current revision."""
    if not isinstance(viewer, User):
        return frozenset()
    return frozenset(Standing.objects.filter(author=viewer, **current()).values_list("problem", flat=True))


def records_of(problem_slug: str, *, profile: str) -> tuple[Record, ...]:
    """The records of a board at the problem's current revision by the current rule, the first one first."""
    found = Record.objects.filter(
        problem=problem_slug, profile=profile, author__is_active=True, **current(problem_slug)
    )
    return tuple(found.select_related("author", "evaluation__submission").order_by("reached_at", "id"))


def latest_records(*, profile: str | None = None) -> QuerySet[Record]:
    """The records of all boards at the problems' current revisions by the current rule, newest first."""
    found = Record.objects.filter(author__is_active=True, **current())
    if profile is not None:
        found = found.filter(profile=profile)
    return found.select_related("author", "evaluation__submission").order_by(*RECORDS_ORDER)


RECORDS_ORDER = ("-reached_at", "-id")


def records_page(*, profile: str | None = None, after: str = "", before: str = "", rows: int) -> Page[Record]:
    """The part of the records of all boards that the cursors ask for, the newest first; raises Refusal."""
    order = Ordering[Record](columns=RECORDS_ORDER)
    return page_of(latest_records(profile=profile), order, after=after, before=before, rows=rows, counts=False)


COLUMNS = (
    "id",
    "problem",
    "profile",
    "backend",
    "score",
    "score_low",
    "score_high",
    "submitted_at",
    "author__username",
    "evaluation_id",
    "evaluation__submission_id",
    "evaluation__submission__visibility",
    "evaluation__recorded_on",
    "evaluation__recorded_where",
    "evaluation__other_speedups",
    "sizes",
    "primitives",
)
"""What a line of a board is made of; whole evaluations and authors would be many times as much."""


def latest_entries(count: int, *, is_ranked_by_speed: bool) -> list[Standing]:
    """The standings submitted last on such profiles that this site judged, of authors whose account is open."""
    chosen = [name for name, each in profiles.profiles().items() if each.is_ranked_by_speed is is_ranked_by_speed]
    found = _shown().filter(profile__in=chosen, evaluation__recorded_on=None)
    return list(found.select_related("author", "evaluation").order_by("-submitted_at", "-id")[:count])


def public_example() -> Standing | None:
    """The fastest entry whose report everybody may read: what a verdict looks like."""
    found = _shown().filter(evaluation__submission__visibility=Visibility.PUBLIC)
    return found.select_related("author", "evaluation__submission").order_by("-score_low", "-id").first()


def _shown() -> QuerySet[Standing]:
    return Standing.objects.filter(score_rule=SCORE_RULE, author__is_active=True)


def _entries(key: BoardKey) -> QuerySet[Standing]:
    """The standings of a board in its order; at one size those that were timed at it."""
    chosen: dict[str, Any] = {
        "problem": key.problem,
        "problem_revision": key.revision,
        "profile": key.profile,
        "score_rule": SCORE_RULE,
    }
    if key.backend is not None:
        chosen["backend"] = key.backend
    if key.size is not None:
        chosen[f"low_{key.size}__isnull"] = False
    if key.primitive is not None:
        # A list of names as the database writes it; both databases find a quoted name in its text.
        chosen["primitives__icontains"] = f'"{key.primitive}"'
    # Closed accounts are few: leaving them out is much cheaper than asking for every entry whether its account is open.
    closed = User.objects.filter(is_active=False).values("pk")
    return Standing.objects.filter(**chosen).exclude(author__in=closed).order_by(*key.order)


def _read(
    entries: QuerySet[Standing], key: BoardKey, *, columns: tuple[str, ...] = (), limit: int | None = None
) -> list[Mapping[str, Any]]:
    """The first `limit` entries, by `columns`, with all that a line shows; without a limit all as they come.

    Which rows they are is found first, by the index of the order alone: joining before would read the whole board.
    """
    if limit is not None:
        entries = Standing.objects.filter(pk__in=entries.values("pk")[:limit]).order_by(*columns)
    shown = COLUMNS if key.size is None else (*COLUMNS, f"low_{key.size}")
    return list(entries.values(*shown))


def _rows(
    key: BoardKey, entries: Iterable[Mapping[str, Any]], *, ahead: int, low_above: float | None
) -> Iterable[BoardRow]:
    by_speed = key.is_ranked_by_speed
    for place, entry in enumerate(entries, start=ahead + 1):
        row = board_row(entry, place=place if by_speed else None, size=key.size, low_above=low_above)
        yield row
        low_above = row.low


def board_row(
    entry: Mapping[str, Any],
    *,
    place: int | None,
    size: str | None = None,
    low_above: float | None = None,
    entries: int = 0,
) -> BoardRow:
    """The line of a standing that was read with `COLUMNS`, at one size or at all."""
    score, low, high = entry["score"], entry["score_low"], entry["score_high"]
    sizes = from_stored(entry["sizes"])
    for time in sizes:
        if time.size == size:
            score, low, high = time.score, time.low, time.high
    return BoardRow(
        problem=entry["problem"],
        profile=entry["profile"],
        place=place,
        author=entry["author__username"],
        backend=entry["backend"],
        score=score,
        low=low,
        high=high,
        overlaps_above=place is not None and low_above is not None and high >= low_above,
        submitted_at=entry["submitted_at"],
        submission_id=entry["evaluation__submission_id"],
        evaluation_id=entry["evaluation_id"],
        is_source_public=entry["evaluation__submission__visibility"] == Visibility.PUBLIC,
        sizes=sizes,
        primitives=tuple(entry["primitives"]),
        size=size,
        recorded=recorded_mark(entry["evaluation__recorded_on"], entry["evaluation__recorded_where"]),
        entries=entries,
        warm=entry["evaluation__other_speedups"].get(BACK_TO_BACK) if size is None else None,
    )
