"""What pages show of runs, worked out from attempts: cells, steps, comparisons, and what models have solved."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evaluator.contract import SCORE_RULE, Mode, Primitive, Verdict, is_faster
from evaluator.hardware.profiles import profiles
from portal.catalog.size_times import SizeTime
from portal.charts import runs as charts
from portal.charts.chart import Chart
from portal.core import speedups
from portal.ranking import leaders, published_charts
from portal.runs.figures import MODES, NOT_MEASURED, REFUSED, Estimate, Sample, geometric_mean
from portal.runs.models import Attempt, LanguageModel, Run
from portal.runs.queries import RunFigures, board_runs, figures_of
from portal.submissions.queries import times_of
from problems import registry
from problems.spec.schema import Problem

TABLE_P = (0.0, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0)
"""The values of p in the tables beside curves."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What a run had reached by a step, with each problem's best program till then.

    `solved` counts problems with an attempt that passed in any mode, `faster` those of them with one that was timed and
    is faster than the reference (`evaluator.contract.is_faster`), ranked or not.
    `speedup_solved` is the geometric mean over the solved problems whose programs were timed, as on the boards.
    `speedup_all` is that over all problems of the benchmark. There one without a faster program counts as 1: its user
    keeps the reference. Both are None until a program was timed. Speedups are by the current rule. `cost_usd` is what
    all attempts so far had cost.
    """

    step: int
    solved: int
    faster: int
    speedup_solved: float | None
    speedup_all: float | None
    attempts: int
    cost_usd: float | None


def progress(run: Run) -> list[Progress]:
    """An agentic run step by step; checks count as passing attempts, since they are what the agent saw."""
    rows = list(
        run.attempts.order_by("step").values_list(
            "step", "problem", "verdict", "score", "score_low", "cost_usd", "evaluation__score_rule"
        )
    )
    problems = len(registry.problems())
    solved: set[str] = set()
    best: dict[str, float] = {}
    faster: set[str] = set()
    cost, has_cost = 0.0, False
    by_step: dict[int, Progress] = {}
    for count, (step, problem, verdict, score, low, spent, rule) in enumerate(rows, start=1):
        if verdict == Verdict.PASSED:
            solved.add(problem)
            if score is not None and score > 0 and rule == SCORE_RULE:
                best[problem] = max(score, best.get(problem, score))
                if is_faster(low):
                    faster.add(problem)
        if spent is not None:
            cost, has_cost = cost + spent, True
        over_all = [max(1.0, value) for value in best.values()] + [1.0] * (problems - len(best))
        by_step[step] = Progress(
            step=step,
            solved=len(solved),
            faster=len(faster),
            speedup_solved=geometric_mean(list(best.values())),
            speedup_all=geometric_mean(over_all) if best else None,
            attempts=count,
            cost_usd=cost if has_cost else None,
        )
    return list(by_step.values())


@dataclass(frozen=True, kw_only=True)
class ModelResult:
    """The best that models made of one problem, the program whose interval begins highest; and who solved it.

    `score` and its interval are None where the run's profile does not rank by speed, or the score is by an older rule.
    """

    problem: str
    run: Run
    score: float | None
    low: float | None
    high: float | None
    models: Sequence[LanguageModel]

    @property
    def is_faster(self) -> bool:
        """Whether it is significantly faster than the reference."""
        return is_faster(self.low)


def solved_by_models(*, profile: str | None = None) -> Mapping[str, ModelResult]:
    """The best result of each problem that some model has solved in a run that boards show, on one profile or any."""
    shown = board_runs() if profile is None else board_runs().filter(profile=profile)
    runs = list(shown.order_by("published_at", "id"))
    best: dict[str, ModelResult] = {}
    solvers: dict[str, list[LanguageModel]] = {}
    found = figures_of(runs)
    for run in runs:
        by_speed = profiles()[run.profile].is_ranked_by_speed
        for slug, sample in found[run.pk].best.items():
            models = solvers.setdefault(slug, [])
            if run.model not in models:
                models.append(run.model)
            best_of_run = sample if by_speed else Sample(verdict=sample.verdict)
            if slug not in best or (best_of_run.low or 0.0) > (best[slug].low or 0.0):
                best[slug] = ModelResult(
                    problem=slug,
                    run=run,
                    score=best_of_run.score,
                    low=best_of_run.low,
                    high=best_of_run.high,
                    models=models,
                )
    return best


def best_of_models(problem: str, *, profile: str, most: int = 8) -> list[tuple[Run, Sequence[SizeTime]]]:
    """Of each model the program whose interval begins highest, at the problem's revision and by the current rule.

    Its run and its times, of the fastest `most` models alone, in two queries, in runs that boards show.
    """
    passed = Attempt.objects.filter(
        run__in=board_runs().filter(profile=profile),
        problem=problem,
        mode=Mode.RANKED,
        verdict="PASSED",
        evaluation__problem_revision=registry.revision(problem),
        evaluation__score_rule=SCORE_RULE,
    )
    best: dict[int, Attempt] = {}
    for attempt in passed.select_related("run__model").order_by("-score_low", "id"):
        best.setdefault(attempt.run.model_id, attempt)
    chosen = {each.evaluation_id: each.run for each in list(best.values())[:most] if each.evaluation_id is not None}
    times = times_of(chosen)
    return [(run, times[pk]) for pk, run in chosen.items() if times.get(pk)]


def solved_here() -> dict[str, int]:
    """How many problems are solved here by people, by models and by either, and how many are beaten by either."""
    (solved, beaten), models = leaders.reached(), solved_by_models()
    return {
        "by_people": len(solved),
        "by_models": len(models),
        "solved": len(solved | models.keys()),
        "beaten": len(beaten.union(slug for slug, result in models.items() if result.is_faster)),
    }


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
    (REFUSED, "text-faint", "-"),
    (NOT_MEASURED, "text-faint", "."),
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
