"""The season that ships with the problems: sample programs of this site's authors, really judged, without competitors.

`problems/data/example_season/season.yaml` defines it. Next to it are a folder of programs per team, and `reports` with
the judge's report on each: `TEAM-PROBLEM-entry.json.gz` while it was open, `TEAM-PROBLEM-final.json.gz` afterwards.
"""

import gzip
import uuid
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec
import yaml
from django.db import transaction

from evaluator.contract import ContractError, EvaluationReport, SourceBundle, SourceFile
from portal.ranking.actions import forget
from portal.ranking.recorded import NotRecorded, take
from portal.seasons.actions import open_final_sources
from portal.seasons.definition import Definition, made
from portal.seasons.models import Entry, Season, Team
from portal.submissions.models import Evaluation, Report, Submission
from problems import registry

FOLDER = registry.DATA / "example_season"
_NAMESPACE = uuid.UUID("0d1d6f0e-8e0f-5a4b-9c55-9f1f4c1f6a02")


@dataclass(frozen=True, kw_only=True)
class _Said:
    """What the file contains besides a definition."""

    definition: Definition
    example: str
    rejudge_at: datetime
    final_at: datetime
    teams: tuple[str, ...]


def add(folder: Path = FOLDER) -> Season | None:
    """Put the example among the seasons, all of it or nothing; None where it is there already.

    Raises:
        NotRecorded, portal.refusals.Refusal: a report does not fit its source or its own record, or a problem has
            changed since: then the example is out of date.
    """
    said = _said(folder)
    if Season.objects.filter(slug=said.definition.slug).exists():
        return None
    with transaction.atomic():
        season = Season.objects.create(
            **{
                name: getattr(said.definition, name) for name in said.definition.__struct_fields__ if name != "problems"
            },
            problems=list(said.definition.problems),
            announced_closes_at=said.definition.closes_at,
            example=said.example,
            rejudge_at=said.rejudge_at,
            final_at=said.final_at,
        )
        for name in said.teams:
            _add_team(season, name, folder)
        open_final_sources(season)
    return season


def _said(folder: Path) -> _Said:
    held = yaml.safe_load((folder / "season.yaml").read_text(encoding="utf-8"))
    more = {name: held.pop(name) for name in ("example", "rejudge_at", "final_at", "teams")}
    return _Said(
        definition=made(held),
        example=more["example"],
        rejudge_at=msgspec.convert(more["rejudge_at"], datetime),
        final_at=msgspec.convert(more["final_at"], datetime),
        teams=tuple(more["teams"]),
    )


def _add_team(season: Season, name: str, folder: Path) -> None:
    team = Team.objects.create(season=season, name=name, created_at=season.opens_at)
    for path in sorted((folder / name).glob("*.py")):
        text = path.read_text(encoding="utf-8")
        source = SourceBundle(files=(SourceFile(path=SourceBundle.ENTRY, text=text),))
        stem = f"{name}-{path.stem}"
        first = _judged(folder, f"{stem}-entry", source)
        Entry.objects.create(
            season=season,
            team=team,
            problem=path.stem,
            evaluation=first,
            final=_judged(folder, f"{stem}-final", source),
            entered_at=first.queued_at,
        )


def _judged(folder: Path, name: str, source: SourceBundle) -> Evaluation:
    """The evaluation that a report makes; raises NotRecorded."""
    path = folder / "reports" / f"{name}.json.gz"
    try:
        report = EvaluationReport.from_json(gzip.decompress(path.read_bytes()))
    except (OSError, ContractError) as error:
        raise NotRecorded(f"{path} is no report: {error}") from error
    return take(report, source, pk=uuid.uuid5(_NAMESPACE, name + report.source_digest + report.finished_at))


@transaction.atomic
def remove(folder: Path = FOLDER) -> bool:
    """Take the example away with its entries; whether it was there."""
    season = Season.objects.filter(slug=_said(folder).definition.slug).exclude(example="").first()
    if season is None:
        return False
    entries = list(season.entries.values_list("evaluation", "final"))
    pks = [pk for pair in entries for pk in pair if pk is not None]
    season.delete()
    evaluations = Evaluation.objects.filter(pk__in=pks)
    submissions = list(evaluations.values_list("submission", flat=True).distinct())
    forget(evaluations)
    Report.objects.filter(evaluation__in=pks).delete()
    Evaluation.objects.filter(pk__in=pks).delete()
    Submission.objects.filter(pk__in=submissions, evaluations__isnull=True).delete()
    return True
