"""What models have solved here, for every page that says what is still open."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluator.contract import SCORE_RULE, Mode, is_faster
from evaluator.hardware.profiles import profiles
from portal.catalog.size_times import SizeTime
from portal.ranking.leaders import reached
from portal.runs.figures import Sample
from portal.runs.models import Attempt, LanguageModel, Run
from portal.runs.queries import board_runs, figures_of
from portal.submissions.queries import times_of
from problems import registry


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
    (solved, beaten), models = reached(), solved_by_models()
    return {
        "by_people": len(solved),
        "by_models": len(models),
        "solved": len(solved | models.keys()),
        "beaten": len(beaten.union(slug for slug, result in models.items() if result.is_faster)),
    }
