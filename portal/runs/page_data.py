"""What the pages of runs show, worked out from attempts: cells, steps, comparisons."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evaluator.contract import Primitive
from portal.charts import runs as charts
from portal.charts.chart import Chart
from portal.core import speedups
from portal.ranking import published_charts
from portal.runs import endings
from portal.runs.endings import MODES
from portal.runs.figures import Estimate
from portal.runs.models import Run
from portal.runs.progress import Progress
from portal.runs.queries import RunFigures
from problems import registry
from problems.spec.schema import Problem

TABLE_P = (0.0, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0)
"""The values of p in the tables beside curves."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One problem of a run: how many of its samples passed, and its result as a label, a tone and a score.

    `speed` says the score as far as its interval shows it; empty without one.
    """

    run: Run
    problem: Problem
    samples: int
    passed: int
    tone: str
    word: str
    score: float | None
    speed: str


def cells(run: Run, figures: RunFigures) -> list[Cell]:
    """Every problem with the outcomes of the run's samples."""
    return [cell(run, problem, figures) for problem in registry.problems()]


def cell(run: Run, problem: Problem, figures: RunFigures) -> Cell:
    """One problem with the outcomes of a run's samples at it, and the best speedup."""
    samples, best = figures.samples.get(problem.slug, ()), figures.best.get(problem.slug)
    passed = sum(sample.is_correct for sample in samples)
    failed = Counter(sample.verdict for sample in samples if sample.verdict)
    if passed:
        tone, word = "good", "passed"
    elif any(sample.is_pending for sample in samples):
        tone, word = "busy", "not judged yet" if run.recorded else "pending"
    elif failed:
        # What was not measured is no failure of the program.
        tone, word = (
            "none" if all(sample.is_open for sample in samples) else "bad",
            failed.most_common(1)[0][0].replace("_", " ").lower(),
        )
    else:
        tone, word = ("bad", "no ranked result") if samples else ("none", "no attempt")
    score, speed = best.score if best else None, ""
    if best and score is not None:
        speed = speedups.in_short(score, best.low, best.high, profile=run.profile)
    return Cell(
        run=run,
        problem=problem,
        samples=len(samples),
        passed=passed,
        tone=tone,
        word=word,
        score=score,
        speed=speed,
    )


def curve_rows(figures: Mapping[str, RunFigures], *, by_point: bool) -> list[tuple[float, list[Estimate | None]]]:
    """fast_p@1 of several complete runs at the values of p that tables show."""
    return [(p, [found.fast_at(p, by_point=by_point) for found in figures.values()]) for p in TABLE_P]


def _endings(figures: RunFigures, *, is_published: bool) -> dict[str, int]:
    """All samples of a run by how they ended: in modes or in published classes, then those without a verdict.

    These wait for it, were only checked or cancelled, or were declared and never made.
    """
    bare = figures.without_verdict
    found = {title: figures.endings[title] for title, *_ in _PUBLISHED}
    if not is_published:
        counts = figures.verdicts
        found = {title: sum(counts.get(each, 0) for each in names.split()) for title, (*_, names) in MODES.items()}
    return found | dict(zip((title for title, *_ in _BARE), (bare.pending, bare.unranked, bare.missing), strict=True))


_OURS = tuple((title, tone, pattern) for title, (tone, pattern, _) in MODES.items())
_PUBLISHED = (
    *published_charts.LOOKS,
    (endings.REFUSED, "text-faint", "-"),
    (endings.NOT_MEASURED, "text-faint", "."),
)
"""Title, tone and pattern of the published classes and of what stands in none of them."""
_BARE = (
    ("Not judged yet", "text-muted", "/"),
    ("No ranked result", "text-faint", "x"),
    ("No attempt", "border-strong", ""),
)


def failure_plot(named: Iterable[tuple[str, RunFigures]], *, is_published: bool) -> Chart:
    """What the samples of several runs ended as, as a figure: in failure modes of ours or in the published classes."""
    rows = [(name, _endings(figures, is_published=is_published)) for name, figures in named]
    return charts.stacked_bars(rows, (*(_PUBLISHED if is_published else _OURS), *_BARE))


def failure_rows(named: Sequence[tuple[str, RunFigures]], *, is_published: bool) -> list[tuple[str, list[int]]]:
    """The same as rows of a table: a way to end, and its number of samples per run."""
    counted = [_endings(figures, is_published=is_published) for _, figures in named]
    rows = [(title, [counts[title] for counts in counted]) for title in (counted[0] if counted else ())]
    return [(title, numbers) for title, numbers in rows if any(numbers)]


def primitive_rows(named: Sequence[tuple[str, RunFigures]]) -> list[tuple[str, list[tuple[int, int]]]]:
    """A primitive, and for every run on how many problems it is used, of how many that were solved."""
    used = [primitive.value for primitive in Primitive if any(primitive in figures.primitives for _, figures in named)]
    return [(name, [(figures.primitives.get(name, 0), figures.solved) for _, figures in named]) for name in used]


def progress_plots(steps: Sequence[Progress]) -> list[tuple[str, str, Chart]]:
    """Problems and speedups that an agent has reached, against step, and against cost where it was declared.

    Each is a figure with its identifier on the page before it, and with what it shows in words.
    """
    axes = [("step", "Step", [(float(row.step), row) for row in steps])]
    if costs := [(row.cost_usd, row) for row in steps if row.cost_usd is not None]:
        axes.append(("cost", "Cost so far (USD)", costs))
    plots = []
    for name, x_title, rows in axes:
        counts = {"passing": [(x, row.solved) for x, row in rows], "faster": [(x, row.faster) for x, row in rows]}
        figure = charts.agent_problems(counts, x_title=x_title)
        plots.append((f"{name}-problems", f"Problems by {name}", figure))
        speedups = {
            "solved problems": [(x, row.speedup_solved) for x, row in rows if row.speedup_solved is not None],
            "all problems": [(x, row.speedup_all) for x, row in rows if row.speedup_all is not None],
        }
        if any(speedups.values()):
            figure = charts.agent_speedups(speedups, x_title=x_title)
            plots.append((f"{name}-score", f"Score by {name}", figure))
    return plots


_SOLVED_BY = {(True, True): "both", (True, False): "only A", (False, True): "only B", (False, False): "neither"}


def side_by_side(pair: Sequence[tuple[Run, RunFigures]]) -> list[tuple[tuple[Cell, ...], str]]:
    """Every problem that one of two runs attempted: its two cells, and which of them solved it."""
    rows = zip(*(cells(run, figures) for run, figures in pair), strict=True)
    return [
        (row, _SOLVED_BY[row[0].passed > 0, row[1].passed > 0]) for row in rows if any(each.samples for each in row)
    ]
