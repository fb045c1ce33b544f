"""The season of `problems/data/example_season`: programs of this site's authors, really judged, without competitors.

`season.yaml` defines it, next to a folder of programs per team. `season.reports.xz` has two reports on each program:
one while the season was open, one afterwards.
"""

from datetime import datetime
from typing import Any

import msgspec
import yaml
from django.db import transaction
from django.db.models import Q

from evaluator.contract import EvaluationReport
from portal.operations.recorded.reports import NotRecorded, Outcome, delete, enter, read_reports, read_source
from portal.seasons.actions import define, open_final_sources
from portal.seasons.definition import Definition, definition_of
from portal.seasons.models import Entry, Season, Team
from portal.submissions.models import Evaluation
from problems import registry

FOLDER = registry.DATA / "example_season"
REPORTS = "season.reports.xz"


def add() -> Outcome:
    """Put the example among the seasons, all of it or nothing; nothing where it is there already.

    Raises:
        NotRecorded, portal.core.errors.Refusal: a report does not fit its source or its own record, or a problem has
            changed since: then the example is out of date.
    """
    definition, more = _definition()
    if Season.objects.filter(slug=definition.slug).exists():
        return Outcome(added=0)
    reports = list(read_reports(FOLDER / REPORTS).values())
    with transaction.atomic():
        season = define(definition, now=definition.opens_at)
        season.example = more["example"]
        season.rejudge_at = msgspec.convert(more["rejudge_at"], datetime)
        season.final_at = msgspec.convert(more["final_at"], datetime)
        season.save()
        for name in more["teams"]:
            _add_team(season, name, reports)
        open_final_sources(season)
    return Outcome(added=1)


def _definition() -> tuple[Definition, dict[str, Any]]:
    values = yaml.safe_load((FOLDER / "season.yaml").read_text(encoding="utf-8"))
    more = {name: values.pop(name) for name in ("example", "rejudge_at", "final_at", "teams")}
    return definition_of(values), more


def _add_team(season: Season, name: str, reports: list[EvaluationReport]) -> None:
    team = Team.objects.create(season=season, name=name, created_at=season.opens_at)
    for path in sorted((FOLDER / name).glob("*.py")):
        source = read_source(path)
        found = [report for report in reports if (report.problem, report.source_digest) == (path.stem, source.digest)]
        ends = {datetime.fromisoformat(report.finished_at) <= season.closes_at: report for report in found}
        if len(found) != 2 or len(ends) != 2:
            raise NotRecorded(f"{path} needs one report while the season is open and one after it; it has {len(found)}")
        first = enter(ends[True], source)
        Entry.objects.create(
            season=season,
            team=team,
            problem=path.stem,
            evaluation=first,
            final=enter(ends[False], source),
            entered_at=first.queued_at,
        )


@transaction.atomic
def remove() -> int:
    """Delete the example with its entries; returns whether it was there, as a number."""
    season = Season.objects.filter(slug=_definition()[0].slug).exclude(example="").first()
    if season is None:
        return 0
    of_season = Q(season_entries__season=season) | Q(final_season_entries__season=season)
    pks = list(Evaluation.objects.filter(of_season).values_list("pk", flat=True))
    season.delete()
    delete(Evaluation.objects.filter(pk__in=pks))
    return 1
