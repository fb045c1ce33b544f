"""Models against problems: what one run of each model made of every problem, by groups, with sentences over them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from evaluator.hardware.profiles import profiles
from portal.catalog.facets import FACETS, Facet, grouped
from portal.core.errors import Refusal
from portal.ranking import published
from portal.runs.figures import CORRECT, NOT_MEASURED, paired, wilson
from portal.runs.models import Run
from portal.runs.page_data import cell
from portal.runs.queries import RunFigures, board_runs, figures_of
from portal.tabular.tables import Table, integer, number, text
from problems import registry
from problems.spec.schema import Problem

MOST_COLUMNS = 8
MOST_LOOKED_AT = 100
"""So many runs, the newest, columns are chosen from."""
GROUPINGS: dict[str, Facet] = {
    each.name: each for each in FACETS if each.name in ("block", "category", "communication", "source")
}
_NAMED = 3
"""So many groups a sentence names."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """One run of a model."""

    run: Run
    figures: RunFigures

    @property
    def name(self) -> str:
        return f"{self.run.model}{'' if self.figures.is_complete else ' (incomplete)'}"

    @property
    def is_ranked_by_speed(self) -> bool:
        return profiles()[self.run.profile].is_ranked_by_speed


Group = dict[str, Any]
"""Problems of one value of a facet, with its `label`.

`shares` has for every column what `_share` says, and `rows` every problem with a cell for every column. `published` is
how many problems the publication counts here; None where it does not divide problems so.
"""


def candidates() -> list[Column]:
    """The runs that columns are chosen from, model by model, the one that stands for its model first.

    That is a complete run before others, one on a profile ranked by speed before one of correctness only, then the
    latest. Models stand in the same order, those that solve more first.
    """
    runs = list(board_runs().order_by("-published_at", "-id")[:MOST_LOOKED_AT])
    found = figures_of(runs)
    columns = [Column(run=run, figures=found[run.pk]) for run in runs]
    columns.sort(key=lambda each: (str(each.run.model.pk), not each.figures.is_complete, not each.is_ranked_by_speed))
    models = [list(of_model) for _, of_model in groupby(columns, key=lambda each: each.run.model_id)]
    models.sort(
        key=lambda each: (
            not each[0].figures.is_complete,
            not each[0].is_ranked_by_speed,
            -each[0].figures.solved,
            str(each[0].run.model),
        )
    )
    return [each for of_model in models for each in of_model]


def chosen(every: Sequence[Column], wanted: Sequence[str]) -> list[Column]:
    """The columns that are asked for by the ids of runs; without any, the first of each model.

    Raises:
        Refusal: too many are asked for, or one that no board shows.
    """
    if not wanted:
        firsts = {each.run.model_id: each for each in reversed(every)}
        return [each for each in every if firsts[each.run.model_id] is each][:MOST_COLUMNS]
    if len(wanted) > MOST_COLUMNS:
        raise Refusal("run", str(len(wanted)), f"At most {MOST_COLUMNS} runs fit.", "Choose fewer runs.")
    known = {str(each.run.pk): each for each in every}
    for each in wanted:
        if each not in known:
            raise Refusal("run", each[:40], "No board shows such a run.", "Choose runs from the list on this page.")
    return [known[each] for each in dict.fromkeys(wanted)]


def groups(columns: Sequence[Column], facet: Facet) -> list[Group]:
    """All problems together as a group without rows, then the problems under each value of `facet`."""
    counts = published.problem_counts(facet.name)
    found = [
        {
            "value": value,
            "label": label,
            "published": counts.get(label),
            "shares": [_share(each, members, label if facet.name == "category" else "") for each in columns],
            "rows": [
                (problem, [(each, cell(each.run, problem, each.figures)) for each in columns]) for problem in members
            ],
        }
        for value, label, members in grouped(registry.problems(), facet)
    ]
    whole = [_share(each, registry.problems(), published.TOTAL) for each in columns]
    total = counts.get(published.TOTAL)
    return [{"value": "", "label": "All problems", "published": total, "shares": whole, "rows": []}, *found]


def table(groups: Sequence[Group]) -> Table:
    """Every problem of the groups with every column, once each: what the page shows, as data."""
    entries = {
        (problem.slug, cell.run.pk): cell for group in groups for problem, cells in group["rows"] for _, cell in cells
    }
    columns = (
        text("problem", "its slug", "problem.slug"),
        text("model", "short name of the model", "run.model.slug"),
        text("run", "id of the run", "run.pk"),
        text("backend", "what the model was asked for", "run.backend"),
        text("profile", "where it was judged", "run.profile"),
        text("outcome", "passed, the most frequent verdict, or why there is none", "word"),
        integer("passed", "samples that passed", "passed"),
        integer("samples", "samples", "samples"),
        number("score", "best speedup over all sizes", "score"),
    )
    return Table(name="models", meaning="Models by problems", columns=columns, entries=lambda: list(entries.values()))


def _share(column: Column, problems: Sequence[Problem], published_group: str) -> dict[str, Any]:
    """Of `problems` that a run was measured on, how many it `solved`, between which shares, and made `faster`.

    `share` has Wilson's 95 % `interval`. `published` are the counts of a model of the same name in this group, by
    measure; empty where there are none.
    """
    samples = column.figures.samples
    is_open = {slug for slug, found in samples.items() if all(sample.is_open for sample in found)}
    # A problem without a program counts as not solved.
    measured = column.figures.able.union(samples) - is_open
    found = [samples.get(each.slug, ()) for each in problems if each.slug in measured]
    solved = sum(any(sample.is_correct for sample in each) for each in found)
    share = solved / len(found) if found else 0.0
    return {
        "problems": len(found),
        "solved": solved,
        "share": share,
        "interval": wilson(share, count=len(found)),
        "faster": sum(any(sample.is_fast(1.0) for sample in each) for each in found),
        "published": published.figures()["results"].of(column.run.model.name, published_group),
    }


def sentences(columns: Sequence[Column], found: Sequence[Group]) -> list[tuple[str, str]]:
    """A heading and what the columns say to it: who is best at what, where they fail, what nobody solves."""
    if not columns:
        return []
    total, *parts = found
    return [
        ("Best at what", f"{_first(columns, total)} {_extremes(columns, parts, is_highest=True)}"),
        ("Where they fail", f"{_failures(columns)} {_extremes(columns, parts, is_highest=False)}"),
        ("What nobody solves", _unsolved(columns, parts)),
    ]


def _first(columns: Sequence[Column], total: Group) -> str:
    order = sorted(range(len(columns)), key=lambda place: -total["shares"][place]["solved"])
    first, share = columns[order[0]], total["shares"][order[0]]
    said = f"{first.name} solves {share['solved']} of {share['problems']} problems"
    if len(order) == 1:
        return f"{said}. No other run is shown."
    second = columns[order[1]]
    test = paired(first.figures.samples, second.figures.samples, able=first.figures.able & second.figures.able)
    behind = total["shares"][order[1]]
    return (
        f"{said}, {second.name} {behind['solved']} of {behind['problems']}. Over the {test.problems} that both were "
        f"measured on they are {'' if test.is_distinguishable else 'not '}distinguishable (exact McNemar test, "
        f"p = {test.p_value:.2g})."
    )


def _extremes(columns: Sequence[Column], parts: Sequence[Group], *, is_highest: bool) -> str:
    """The groups of which the best run solves the largest or the smallest share."""
    best = []
    for part in parts:
        place = max(range(len(columns)), key=lambda place: part["shares"][place]["share"])
        share = part["shares"][place]
        if share["problems"] >= _LEAST_PROBLEMS:
            who = f", {columns[place].run.model}" if share["solved"] else ""
            best.append((share["share"], f"{part['label']} ({share['solved']} of {share['problems']}{who})"))
    best.sort(key=lambda pair: pair[0], reverse=is_highest)
    named = ", ".join(text for _, text in best[:_NAMED])
    return f"The {'largest' if is_highest else 'smallest'} shares of a best run: {named}." if named else ""


_LEAST_PROBLEMS = 3
"""A share of fewer problems says little."""


def _failures(columns: Sequence[Column]) -> str:
    every = (found for each in columns for found in each.figures.samples.values())
    endings = Counter(sample.ending for found in every for sample in found)
    failed = [(name, count) for name, count in endings.most_common() if name not in ("", CORRECT, NOT_MEASURED)]
    most = ", ".join(f"{count} as {name[0].lower()}{name[1:]}" for name, count in failed[:_NAMED])
    return f"{sum(count for _, count in failed)} programs failed: {most}." if failed else "No program failed."


def _unsolved(columns: Sequence[Column], parts: Sequence[Group]) -> str:
    solved = {
        slug
        for each in columns
        for slug, found in each.figures.samples.items()
        if any(sample.is_correct for sample in found)
    }
    every = registry.problems()
    left = sum(problem.slug not in solved for problem in every)
    whole = [part["label"] for part in parts if not any(problem.slug in solved for problem, _ in part["rows"])]
    among = f" They include every problem of {', '.join(whole)}." if whole else ""
    return f"{left} of {len(every)} problems are solved by none of the runs shown.{among}"
