"""Results that others have published: figures with source and date, never mixed with what this site measured.

`problems/data/published/figures.csv` says for every table and picture where it stands; `values.csv` has their numbers.
"""

import csv
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from portal.tabular.tables import Table, boolean, number, text
from problems import registry
from problems.spec.categories import Category

FOLDER = registry.DATA / "published"
PROBLEMS = 87
TOTAL = "Total"
MEASURES = ("pass@1", "pass@3", "fast_1@1", "fast_1@3")


class WrongData(ValueError):
    """A file of published results cannot be used; the text names file, line, what is wrong and the remedy."""

    def __init__(self, path: Path, line: int, problem: str) -> None:
        super().__init__(f"{path.name}, line {line}: {problem}")


@dataclass(frozen=True, kw_only=True)
class Value:
    """One number of a figure: of which model, in which row, of which measure; empty where a figure has none."""

    model: str
    group: str
    measure: str
    value: float


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A table or picture. With `is_read_off` its numbers were measured on the picture, good to about 0.01."""

    name: str
    source: str
    date: str
    address: str
    setting: str
    is_read_off: bool
    note: str
    values: tuple[Value, ...]

    def of(self, model: str = "", group: str = "") -> dict[str, float]:
        """The values of a model and a row, by measure."""
        return {found.measure: found.value for found in self.values if (found.model, found.group) == (model, group)}

    @property
    def models(self) -> tuple[str, ...]:
        """The models in the order of the publication."""
        return tuple(dict.fromkeys(found.model for found in self.values))

    @property
    def groups(self) -> tuple[str, ...]:
        """The rows in the order of the publication."""
        return tuple(dict.fromkeys(found.group for found in self.values))

    @property
    def measures(self) -> tuple[str, ...]:
        """What was counted or measured, in the order of the publication."""
        return tuple(dict.fromkeys(found.measure for found in self.values))


@cache
def figures(folder: Path = FOLDER) -> dict[str, Figure]:
    """Every published figure by name.

    Raises:
        WrongData: a figure has no source or date, a number is none, or counts contradict each other.
    """
    values = _values(folder / "values.csv")
    path = folder / "figures.csv"
    found = {}
    for line, row in _rows(path):
        for field in ("figure", "source", "date", "address"):
            if not row[field]:
                raise WrongData(path, line, f"{field} is empty. A figure is shown with its source and date only.")
        found[row["figure"]] = Figure(
            name=row["figure"],
            **{field: row[field] for field in ("source", "date", "address", "setting", "note")},
            is_read_off=row["read_off"] == "yes",
            values=tuple(value for _, value in values.pop(row["figure"], [])),
        )
    for name, left in values.items():
        raise WrongData(folder / "values.csv", left[0][0], f"figure {name!r} is not in figures.csv. Add it there.")
    return found


TABLE = Table(
    name="published",
    meaning="Every number of the published figures.",
    columns=(
        text("figure", "the table or picture", "figure.name"),
        text("model", "empty where the figure is about none", "value.model"),
        text("group", "the row: a category, an axis, a workload", "value.group"),
        text("measure", "what was counted or measured, or the place on an axis", "value.measure"),
        number("value", "as published", "value.value"),
        boolean("is_read_off", "whether it was measured on a picture", "figure.is_read_off"),
        text("setting", "where and how it was measured, as published", "figure.setting"),
        text("source", "who published it", "figure.source"),
        text("date", "when", "figure.date"),
        text("address", "where", "figure.address"),
    ),
    entries=lambda: [{"figure": figure, "value": value} for figure in figures().values() for value in figure.values],
)


def problem_counts(facet: str) -> dict[str, float]:
    """How many problems the publication counts under each value of a facet, by label; empty where it does not say."""
    name = {"category": "categories", "source": "code_bases"}.get(facet)
    return {each.group: each.value for each in figures()[name].values} if name else {}


def by_effort() -> tuple[str, list[tuple[str, tuple[float, float]]]]:
    """The model of the agentic run, and what it solved, and solved faster: with one sample, with three, as an agent."""
    results, loop = figures()["results"], figures()["agentic"]
    [model] = loop.models
    sampled = results.of(model, TOTAL)
    rows = [(name, (sampled[f"pass@{k}"], sampled[f"fast_1@{k}"])) for k, name in ((1, "One sample"), (3, "Best of 3"))]
    return model, [*rows, ("Agentic loop", (loop.of(model)["correct"], loop.of(model)["faster"]))]


def sweeps() -> list[tuple[str, Figure]]:
    """The workloads of the headlines, each with its speedups over a size."""
    found = [each for name, each in figures().items() if name.startswith("sweep_")]
    return list(zip(figures()["headlines"].groups, found, strict=True))


def contradictions() -> tuple[str, ...]:
    """Where the printed total is not the sum of the printed rows, as sentences."""
    results, problems = figures()["results"], figures()["categories"]
    kinds = [("", "problems", problems), *((model, name, results) for model in results.models for name in MEASURES)]
    said = []
    for model, measure, figure in kinds:
        groups = [figure.of(model, group)[measure] for group in figure.groups if group != TOTAL]
        printed = figure.of(model, TOTAL)[measure]
        if sum(groups) != printed:
            whose = f"{model}, {measure}" if model else "The problems"
            said.append(f"{whose}: the rows add up to {sum(groups):.0f}, the last line says {printed:.0f}.")
    return tuple(said)


def _values(path: Path) -> dict[str, list[tuple[int, Value]]]:
    """The numbers of each figure, with their lines."""
    found = defaultdict(list)
    for line, row in _rows(path):
        try:
            shown = float(row["value"])
        except ValueError:
            raise WrongData(path, line, f"value {row['value']!r} is no number.") from None
        if row["figure"] in ("categories", "results") and row["group"] not in (
            TOTAL,
            *(each.label for each in Category),
        ):
            raise WrongData(path, line, f"group {row['group']!r} is none of the paper's categories.")
        value = Value(model=row["model"], group=row["group"], measure=row["measure"], value=shown)
        found[row["figure"]].append((line, value))
    _check_failures(path, found["failures"])
    return found


def _check_failures(path: Path, values: list[tuple[int, Value]]) -> None:
    """Every model's endings are of all 87 programs."""
    lines: dict[str, int] = {}
    sums: dict[str, float] = defaultdict(float)
    for line, value in values:
        lines[value.model] = line
        sums[value.model] += value.value
    for model, count in sums.items():
        if count != PROBLEMS:
            raise WrongData(path, lines[model], f"the endings of {model} add up to {count:.0f}, not to {PROBLEMS}.")


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        for row in reader:
            if None in row or None in row.values():
                raise WrongData(path, reader.line_num, "it has not as many cells as the first line.")
            yield reader.line_num, row
