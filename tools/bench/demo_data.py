"""Writes invented submissions for load tests, marked as such: authors called `demo-...`, notes and sources say so.

    python -m tools.bench.demo_data --submissions 1000000 --authors 20000    # into the site's configured database
    python -m tools.bench.demo_data --remove

Everything is written as the tables would hold it after real judging, standings and records included, but without
reports. Rows go in by COPY on PostgreSQL and by `executemany` on SQLite.
"""

import argparse
import csv
import io
import json
import math
import os
import random
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import django
from django.core.management.color import no_style
from django.db import connection, models, transaction
from django.db.models import Max
from django.utils import timezone

if __name__ == "__main__":  # the models below need the site's settings
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    django.setup()

from evaluator.contract import SCORE_RULE, Backend, Mode, SourceBundle, SourceFile, Verdict, is_faster
from evaluator.hardware.profiles import Profile
from portal.accounts.models import User, confusable_key
from portal.catalog.queries import judging_profiles
from portal.catalog.size_times import SizeTime
from portal.operations.audit import NOTE
from portal.ranking.actions import catalog_digest, columns_of
from portal.ranking.models import Board, PersonStanding, Record, Standing, is_better
from portal.submissions.models import Evaluation, Source, State, Submission, Visibility
from problems import registry
from problems.spec.schema import Problem

NAME_PREFIX = "demo-"
YEAR_S = 365 * 24 * 3600
_CHUNK = 20_000
_FAILURES = (Verdict.WRONG_RESULT, Verdict.DEADLOCK, Verdict.COMPILE_ERROR, Verdict.CRASHED, Verdict.TIMEOUT)
_BACKEND_WEIGHTS = {"pytorch": 4, "triton": 3, "cuda": 3, "nvshmem": 1, "nccl_device": 1}
_PRIMITIVES = {
    "pytorch": "nccl",
    "triton": "sm_load_store",
    "cuda": "sm_load_store",
    "nvshmem": "nvshmem",
    "nccl_device": "nccl_device",
}


@dataclass(frozen=True)
class Counts:
    """How much was written."""

    authors: int
    submissions: int
    standings: int
    records: int


@dataclass(frozen=True, kw_only=True)
class _Attempt:
    """One invented submission with its evaluation."""

    submission: uuid.UUID
    evaluation: uuid.UUID
    author: int
    problem: Problem
    profile: Profile
    backend: str
    mode: Mode
    verdict: Verdict
    submitted_at: datetime
    finished_at: datetime
    is_public: bool
    score: float
    half_width: float

    @property
    def low(self) -> float:
        return self.score - self.half_width

    @property
    def high(self) -> float:
        return self.score + self.half_width

    @property
    def counts(self) -> bool:
        return self.verdict is Verdict.PASSED and self.mode is Mode.RANKED


@dataclass
class _Ranking:
    """Standings, boards and records as they grow, attempt after attempt in the order of time."""

    standings: dict[tuple[int, str, str, str], _Attempt] = field(default_factory=dict)
    boards: dict[tuple[str, str], tuple[int, float]] = field(default_factory=dict)
    records: list[tuple[_Attempt, float | None]] = field(default_factory=list)

    def add(self, attempt: _Attempt) -> None:
        """What `portal.ranking.actions.raise_standing` does, in memory."""
        key = (attempt.author, attempt.problem.slug, attempt.profile.name, attempt.backend)
        held = self.standings.get(key)
        if held is not None and not is_better(attempt.low, attempt.submitted_at, than=(held.low, held.submitted_at)):
            return
        self.standings[key] = attempt
        place = (attempt.problem.slug, attempt.profile.name)
        entries, record_low = self.boards.get(place, (0, -math.inf))
        if entries == 0 or (attempt.profile.is_ranked_by_speed and attempt.low > record_low):
            self.records.append((attempt, record_low if entries else None))
            record_low = attempt.low
        self.boards[place] = (entries + (held is None), record_low)


def seed(
    *, submissions: int, authors: int, now: datetime, slugs: Sequence[str] | None = None, randomness: int = 1
) -> Counts:
    """Write so many invented submissions of the last year, and all that follows from them, in one transaction.

    `slugs` are the problems that they are to; all where None.
    """
    problems = registry.problems() if slugs is None else tuple(registry.get(slug) for slug in slugs)
    draw = random.Random(randomness)
    with transaction.atomic():
        people = _authors(authors, now=now)
        sources = _sources(problems, now=now)
        ranking = _Ranking()
        attempts = _attempts(draw, problems, people=people, count=submissions, now=now)
        for chunk in _chunks(attempts, _CHUNK):
            _write(Submission, (_submission(attempt, sources) for attempt in chunk))
            _write(Evaluation, (_evaluation(attempt) for attempt in chunk))
            for attempt in chunk:
                if attempt.counts:
                    ranking.add(attempt)
        _write_ranking(ranking)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return Counts(len(people), submissions, len(ranking.standings), len(ranking.records))


def remove() -> int:
    """Delete every invented row; returns how many submissions there were."""
    people = User.objects.filter(username__startswith=NAME_PREFIX)
    with transaction.atomic():
        chosen = Submission.objects.filter(author__in=people, note=NOTE)
        for derived in (PersonStanding, Record, Standing):
            derived.objects.filter(author__in=people).delete()
        Evaluation.objects.filter(submission__in=chosen).delete()
        count, _ = chosen.delete()
        Source.objects.filter(submissions=None, bundle__files__0__text__startswith=_source_head()).delete()
        people.delete()
        _recount()
    return count


def has_real_submissions() -> bool:
    """Whether anybody but invented authors has submitted."""
    return Submission.objects.exclude(author__username__startswith=NAME_PREFIX).exists()


def _recount() -> None:
    for board in Board.objects.all():
        place = {
            "problem": board.problem,
            "problem_revision": board.problem_revision,
            "profile": board.profile,
            "score_rule": board.score_rule,
        }
        left = Standing.objects.filter(**place, author__is_active=True)
        best = left.aggregate(best=Max("score_low"))["best"]
        Board.objects.filter(pk=board.pk).update(entries=left.count(), record_low=best)
    Board.objects.filter(entries=0).delete()


def _authors(count: int, *, now: datetime) -> list[int]:
    first = (User.objects.aggregate(last=Max("pk"))["last"] or 0) + 1
    taken = User.objects.filter(username__startswith=NAME_PREFIX).count()
    joined = now - timedelta(seconds=YEAR_S)
    names = [f"{NAME_PREFIX}{taken + index:06d}" for index in range(count)]
    _write(
        User,
        (
            {
                "id": first + index,
                "username": name,
                "confusable_key": confusable_key(name),
                "password": "!",
                "date_joined": joined,
            }
            for index, name in enumerate(names)
        ),
    )
    return list(range(first, first + count))


def _source_head() -> str:
    return f"# {NOTE}: "


def _sources(problems: Sequence[Problem], *, now: datetime) -> dict[tuple[str, str], int]:
    """One source per problem and backend, by both."""
    found = {}
    for problem in problems:
        for backend in _BACKEND_WEIGHTS:
            text = (
                f"{_source_head()}{problem.slug}, {backend}\n\n\n{problem.signature}:\n    raise NotImplementedError\n"
            )
            bundle = SourceBundle(files=(SourceFile(path=SourceBundle.ENTRY, text=text),))
            source, _ = Source.objects.get_or_create(
                digest=bundle.digest,
                defaults={"bundle": json.loads(bundle.to_json()), "size_bytes": len(text), "created_at": now},
            )
            found[problem.slug, backend] = source.pk
    return found


def _attempts(
    draw: random.Random, problems: Sequence[Problem], *, people: list[int], count: int, now: datetime
) -> Iterator[_Attempt]:
    popularity = [1 / (rank + 3) for rank in range(len(problems))]
    chosen_problems = draw.choices(problems, popularity, k=count)
    profiles = {
        problem.slug: [each for each in judging_profiles(problem) if each.measures_time and each.tried]
        for problem in problems
    }
    difficulty = {problem.slug: draw.gauss(0.0, 0.25) for problem in problems}
    activity = [draw.paretovariate(1.2) for _ in people]
    chosen_people = draw.choices(range(len(people)), activity, k=count)
    skill = [draw.gauss(0.0, 0.2) for _ in people]
    backends = draw.choices(list(_BACKEND_WEIGHTS), list(_BACKEND_WEIGHTS.values()), k=count)
    step = YEAR_S / count
    start = now - timedelta(seconds=YEAR_S)
    for number, problem in enumerate(chosen_problems):
        person = chosen_people[number]
        profile = draw.choice(profiles[problem.slug])
        progress = 0.3 * number / count
        score = math.exp(difficulty[problem.slug] + skill[person] + progress + draw.gauss(-0.1, 0.2))
        submitted_at = start + timedelta(seconds=step * (number + draw.random()))
        yield _Attempt(
            submission=uuid.UUID(int=draw.getrandbits(128), version=4),
            evaluation=uuid.UUID(int=draw.getrandbits(128), version=4),
            author=people[person],
            problem=problem,
            profile=profile,
            backend=backends[number] if backends[number] in profile.backends else Backend.PYTORCH.value,
            mode=Mode.RANKED if draw.random() < 0.8 else Mode.CHECK,
            verdict=Verdict.PASSED if draw.random() < 0.55 else draw.choice(_FAILURES),
            submitted_at=submitted_at,
            finished_at=submitted_at + timedelta(seconds=20 + 60 * draw.random()),
            is_public=draw.random() < 0.3,
            score=score,
            half_width=score * (0.003 + 0.02 * draw.random()),
        )


def _submission(attempt: _Attempt, sources: dict[tuple[str, str], int]) -> dict[str, Any]:
    return {
        "id": attempt.submission,
        "author_id": attempt.author,
        "problem": attempt.problem.slug,
        "source_id": sources[attempt.problem.slug, attempt.backend],
        "backend": attempt.backend,
        "visibility": (Visibility.PUBLIC if attempt.is_public else Visibility.PRIVATE).value,
        "note": NOTE,
        "created_at": attempt.submitted_at,
    }


def _evaluation(attempt: _Attempt) -> dict[str, Any]:
    is_scored = attempt.counts
    return {
        "id": attempt.evaluation,
        "submission_id": attempt.submission,
        "problem_revision": registry.revision(attempt.problem.slug),
        "profile": attempt.profile.name,
        "mode": attempt.mode.value,
        "state": State.FINISHED.value,
        "queued_at": attempt.submitted_at,
        "started_at": attempt.submitted_at + timedelta(seconds=5),
        "finished_at": attempt.finished_at,
        "verdict": attempt.verdict.value,
        "message": NOTE,
        "score": attempt.score if is_scored else None,
        "score_low": attempt.low if is_scored else None,
        "score_high": attempt.high if is_scored else None,
        "score_rule": SCORE_RULE if is_scored else None,
        "primitives": _primitives(attempt) if attempt.verdict is Verdict.PASSED else [],
    }


def _write_ranking(ranking: _Ranking) -> None:
    first = (Standing.objects.aggregate(last=Max("pk"))["last"] or 0) + 1
    numbered = list(enumerate(ranking.standings.values(), start=first))
    _write(Standing, ({"id": number} | _standing(attempt) for number, attempt in numbered))
    _write(Board, _new_boards(ranking))
    _write(Record, (_record(attempt, previous) for attempt, previous in ranking.records))
    _write(PersonStanding, _people(ranking.standings))
    _reset_sequences()


def _new_boards(ranking: _Ranking) -> Iterator[dict[str, Any]]:
    """The boards that there were none of; one that people stand on already takes the invented entries as well."""
    present = Board.objects.filter(score_rule=SCORE_RULE)
    held = {(board.problem, board.problem_revision, board.profile): board for board in present}
    for (slug, profile), (entries, low) in ranking.boards.items():
        revision = registry.revision(slug)
        board = held.get((slug, revision, profile))
        if board is None:
            place = {"problem": slug, "problem_revision": revision, "profile": profile, "score_rule": SCORE_RULE}
            yield {**place, "entries": entries, "record_low": low}
        else:
            board.entries += entries
            board.record_low = low if board.record_low is None else max(low, board.record_low)
            board.save(update_fields=["entries", "record_low"])


def _board_key(attempt: _Attempt) -> dict[str, Any]:
    return {
        "problem": attempt.problem.slug,
        "problem_revision": registry.revision(attempt.problem.slug),
        "profile": attempt.profile.name,
        "backend": attempt.backend,
        "score_rule": SCORE_RULE,
    }


def _interval(attempt: _Attempt) -> dict[str, float]:
    return {"score": attempt.score, "score_low": attempt.low, "score_high": attempt.high}


def _sizes(attempt: _Attempt) -> tuple[SizeTime, ...]:
    times = []
    for index, size in enumerate(attempt.profile.sizes[Mode.RANKED]):
        ratio = attempt.score * (1 + 0.1 * (index - 0.5))
        baseline = 100.0 * 8**index
        times.append(
            SizeTime(
                size=size,
                time_us=round(baseline / ratio, 2),
                baseline_us=baseline,
                floor_us=baseline * 0.2 if attempt.profile.peaks else None,
                score=round(ratio, 4),
                low=round(ratio - attempt.half_width, 4),
                high=round(ratio + attempt.half_width, 4),
            )
        )
    return tuple(times)


def _standing(attempt: _Attempt) -> dict[str, Any]:
    return {
        **_board_key(attempt),
        **_interval(attempt),
        "author_id": attempt.author,
        "evaluation_id": attempt.evaluation,
        "submitted_at": attempt.submitted_at,
        **columns_of(_sizes(attempt)),
        "primitives": _primitives(attempt),
    }


def _primitives(attempt: _Attempt) -> list[str]:
    names = [_PRIMITIVES[attempt.backend]]
    if attempt.evaluation.int % 8 == 0:
        names.insert(0, "copy_engine")
    return names


def _record(attempt: _Attempt, previous: float | None) -> dict[str, Any]:
    return {
        **_board_key(attempt),
        **_interval(attempt),
        "author_id": attempt.author,
        "evaluation_id": attempt.evaluation,
        "previous_low": previous,
        "reached_at": attempt.finished_at,
    }


def _people(standings: dict[tuple[int, str, str, str], _Attempt]) -> Iterator[dict[str, Any]]:
    best: dict[tuple[int, str], dict[str, _Attempt]] = {}
    reached: dict[tuple[int, str], datetime] = {}
    for (author, slug, profile, _), attempt in standings.items():
        problems = best.setdefault((author, profile), {})
        reached[author, profile] = max(reached.get((author, profile), attempt.submitted_at), attempt.submitted_at)
        if slug not in problems or attempt.low > problems[slug].low:
            problems[slug] = attempt
    for (author, profile), problems in best.items():
        chosen = problems.values()
        yield {
            "author_id": author,
            "profile": profile,
            "solved": len(problems),
            "faster": sum(is_faster(attempt.low) and attempt.profile.is_ranked_by_speed for attempt in chosen),
            "mean_score": math.exp(sum(math.log(attempt.score) for attempt in chosen) / len(problems)),
            "reached_at": reached[author, profile],
            "catalog_digest": catalog_digest(),
        }


def _chunks(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    chunk: list[Any] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _write(model: type[models.Model], rows: Iterable[dict[str, Any]]) -> None:
    """Insert rows, all with the same columns, by the quickest way that the database has.

    Columns that a row leaves out get their field's default.
    """
    defaults = {
        column.attname: column.get_default()
        for column in model._meta.concrete_fields  # noqa: SLF001 - Django documents it
        if not isinstance(column, models.AutoField)
    }
    for given in _chunks(rows, _CHUNK):
        rest = {name: value for name, value in defaults.items() if name not in given[0]}
        chunk = [row | rest for row in given]
        columns = list(chunk[0])
        if connection.vendor == "postgresql":
            _copy(model, columns, chunk)
        else:
            _insert(model, columns, chunk)


def _copy(model: type[models.Model], columns: list[str], rows: list[dict[str, Any]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text)
    for row in rows:
        writer.writerow([_as_csv(value) for value in row.values()])
    text.seek(0)
    names = ", ".join(f'"{name}"' for name in columns)
    with connection.cursor() as cursor:
        table = model._meta.db_table  # noqa: SLF001 - Django documents it
        cursor.copy_expert(f"COPY \"{table}\" ({names}) FROM STDIN WITH (FORMAT csv, NULL '\\N')", text)


def _as_csv(value: Any) -> Any:
    if value is None:
        return "\\N"
    return json.dumps(value) if isinstance(value, list | dict) else value


def _insert(model: type[models.Model], columns: list[str], rows: list[dict[str, Any]]) -> None:
    fields = {column.attname: column for column in model._meta.concrete_fields}  # noqa: SLF001 - Django documents it
    chosen = [fields[name] for name in columns]
    values = [
        [column.get_db_prep_save(value, connection) for column, value in zip(chosen, row.values(), strict=True)]
        for row in rows
    ]
    names = ", ".join(f'"{column.column}"' for column in chosen)
    marks = ", ".join(["%s"] * len(columns))
    with connection.cursor() as cursor:
        cursor.executemany(f'INSERT INTO "{model._meta.db_table}" ({names}) VALUES ({marks})', values)  # noqa: SLF001 - our own names


def _reset_sequences() -> None:
    """Continue automatic numbers after those that were written."""
    tables = [User, Standing, Board, Record, PersonStanding]
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), tables):
            cursor.execute(statement)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--submissions", type=int, default=1_000_000)
    parser.add_argument("--authors", type=int, default=20_000)
    parser.add_argument("--beside-real-data", action="store_true", help="write even where people have submitted")
    parser.add_argument("--remove", action="store_true", help="delete all invented rows instead")
    options = parser.parse_args()
    if options.remove:
        print(f"{remove()} invented submissions deleted")
        return 0
    for name in ("submissions", "authors"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} is {getattr(options, name)}; it has to be at least 1")
    if has_real_submissions() and not options.beside_real_data:
        parser.error(
            "this database holds submissions of people; invented ones would be on the same boards. "
            "Use another database, or pass --beside-real-data (and later --remove)"
        )
    start = time.monotonic()
    written = seed(submissions=options.submissions, authors=options.authors, now=timezone.now())
    print(
        f"{written.submissions} invented submissions of {written.authors} authors, {written.standings} standings "
        f"and {written.records} records in {time.monotonic() - start:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
