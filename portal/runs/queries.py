"""Shared reads of models and runs: who may see what, and what boards and pages show of them."""

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any

from django.db.models import Count, Max, Prefetch, Q, QuerySet, Sum

from evaluator.contract import SCORE_RULE, Mode
from evaluator.hardware import profiles
from portal.accounts.models import Organisation, User, Viewer
from portal.catalog.size_times import SCORE, WAYS
from portal.core.errors import Forbidden, NotFound, by_id
from portal.runs import figures, prompts
from portal.runs.figures import Bounds, Estimate, Sample, published_class
from portal.runs.models import Attempt, AttemptState, LanguageModel, Run, RunEvent, RunState
from portal.submissions.models import GpuUse
from portal.submissions.quotas import MONTH
from problems import registry


def visible_runs(viewer: Viewer) -> QuerySet[Run]:
    """The runs that `viewer` may see: published ones and those of their organisations; staff see all."""
    runs = Run.objects.select_related("model__organisation", "created_by")
    if not isinstance(viewer, User):
        return runs.filter(state=RunState.PUBLISHED)
    if viewer.is_staff:
        return runs
    return runs.filter(Q(state=RunState.PUBLISHED) | Q(model__organisation__in=viewer.organisations.values("pk")))


def get_run(viewer: Viewer, run_id: uuid.UUID | str) -> Run:
    """The run with this id, if `viewer` may see it; raises Refusal (404)."""
    message = "There is no such run, or it is not published."
    remedy = "Check the address, or sign in as a member of its organisation."
    return by_id(visible_runs(viewer), "run", run_id, message, remedy)


def may_change(viewer: Viewer, run: Run) -> bool:
    return isinstance(viewer, User) and viewer.memberships.filter(organisation=run.model.organisation_id).exists()


def require_change(user: User, run: Run) -> None:
    """Refuse (403) whoever does not belong to the run's organisation."""
    if not may_change(user, run):
        remedy = "Create your own run, or ask to be invited to that organisation."
        raise Forbidden("run", run.pk, "This run belongs to another organisation.", remedy)


def visible_models(viewer: Viewer) -> QuerySet[LanguageModel]:
    """The models that `viewer` may see: those with a run that they may see."""
    chosen = LanguageModel.objects.filter(runs__in=visible_runs(viewer)).distinct()
    return chosen.select_related("organisation").order_by("slug")


def get_model(viewer: Viewer, slug: str) -> LanguageModel:
    """The model called `slug`, if `viewer` may see a run of it; raises Refusal (404)."""
    message = "There is no such model, or none of its runs is published."
    return by_id(
        visible_models(viewer), "model", slug, message, "Choose one from the model leaderboard.", column="slug"
    )


def get_attempt_with_trajectory(run: Run, attempt_id: int, viewer: Viewer) -> Attempt:
    """One attempt of a run whose trajectory `viewer` may read; raises Refusal (404)."""
    message, remedy = "The run has no such attempt.", "Take an id from the run's attempts."
    attempt = by_id(run.attempts.select_related("trajectory"), "attempt_id", attempt_id, message, remedy)
    if not attempt.has_trajectory or not shows_sources(viewer, run):
        message = "The attempt has no trajectory, or the run keeps its sources private."
        remedy = "Look for an attempt whose has_trajectory is true in a run with public sources."
        raise NotFound("attempt_id", attempt_id, message, remedy)
    return attempt


def shows_sources(viewer: Viewer, run: Run) -> bool:
    """Whether `viewer` may read what the run's attempts wrote, and how."""
    return (run.is_published and run.are_sources_public) or may_change(viewer, run) or viewer.is_staff


@dataclass(frozen=True, kw_only=True)
class RunFigures:
    """A run's result over all problems; `samples` has the outcome of each sample by problem.

    Estimates are over the `measured` problems, those without a program among them. They are None until the run is
    complete: until every sample has its verdict. `bounds` is that of correct@1 over all problems, in any case.

    `faster` counts problems with a sample faster than the reference (`evaluator.contract.is_faster`); `primitives` says
    on how many of the solved problems a correct sample uses each. `verdicts` and `without_verdict` together are all
    samples, those never made among them. The geometric mean is over solved problems, each with its best sample. Costs
    are the sum over all attempts, whatever their mode and whether they held a program, or what the run declared.

    Speedups are those of the current rule, `score_rule`. `answered` says what the attempts are written in ("54 cuda, 15
    triton"); empty where all are written in what the model was asked for.
    """

    problems: int
    able: frozenset[str]
    attempted: int
    measured: int
    programs: int
    judged: int
    solved: int
    correct_at_1: Estimate | None
    correct_at_k: Estimate | None
    best_of_k: Estimate | None
    bounds: Bounds
    verdicts: Mapping[str, int]
    without_verdict: figures.WithoutVerdict
    primitives: Mapping[str, int]
    cost_usd: float | None
    tokens: int | None
    samples: Mapping[str, tuple[Sample, ...]]
    score_rule: int = SCORE_RULE
    answered: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether every program has its verdict."""
        return not self.without_verdict.pending

    @property
    def ways(self) -> tuple[str, ...]:
        """The ways of timing that some speedup is known by, the score first."""
        every = [sample.other_speedups for found in self.samples.values() for sample in found if sample.is_correct]
        return tuple(way for way in WAYS if way == SCORE or any(way in others for others in every))

    @cached_property
    def best(self) -> Mapping[str, Sample]:
        """By solved problem the correct sample whose interval begins highest."""
        correct = {slug: [each for each in found if each.is_correct] for slug, found in self.samples.items()}
        return {slug: max(found, key=lambda each: each.low or 0.0) for slug, found in correct.items() if found}

    @property
    def above(self) -> dict[float, int]:
        """How many solved problems have a speedup by its point, and one above some p."""
        best = figures.best_scores(self.samples).values()
        return {p: sum(score > p for score in best) for p in (0.0, 0.5, 1.0, 2.0, 3.0)}

    def by(self, way: str) -> "RunFigures":
        """The same with speedups by another way of timing in place of scores; the score's own as they are."""
        if way == SCORE:
            return self
        samples = {slug: tuple(sample.by(way) for sample in found) for slug, found in self.samples.items()}
        return replace(self, samples=samples)

    @cached_property
    def faster(self) -> int:
        return figures.faster(self.samples)

    @cached_property
    def geomean_speedup(self) -> float | None:
        return figures.geometric_mean([score for score in figures.best_scores(self.samples).values() if score > 0])

    @property
    def unattempted(self) -> int:
        """How many problems that the profile can judge have no program."""
        return len(self.able.difference(self.samples))

    @property
    def unable(self) -> int:
        """How many problems the profile cannot judge, whatever the program."""
        return self.problems - len(self.able.union(self.samples))

    @property
    def endings(self) -> Counter[str]:
        """Samples by the failure modes of the publication."""
        return Counter(sample.ending for found in self.samples.values() for sample in found if sample.ending)

    def fast(self, *, by_point: bool = False) -> tuple[tuple[float, float], ...]:
        """fast_p@1 as (p, share), valid from that p to the next; empty until the run is complete."""
        if not self.is_complete:
            return ()
        return figures.fast_curve(figures.measured(self.samples), problems=self.measured, by_point=by_point)

    def fast_at(self, p: float, *, k: int = 1, by_point: bool = False) -> Estimate | None:
        """fast_p@k at any p; None until the run is complete."""
        if not self.is_complete:
            return None
        return figures.fast_at(figures.measured(self.samples), p, k=k, problems=self.measured, by_point=by_point)

    def fast_bounds(self, p: float) -> Bounds:
        """The bounds of fast_p@1 over all problems."""
        return figures.bounds(self.samples, p, k=1, problems=self.problems, unable=self.unable)


def run_figures(run: Run) -> RunFigures:
    return figures_of([run])[run.pk]


def figures_of(runs: Iterable[Run]) -> dict[uuid.UUID, RunFigures]:
    """The figures of several runs, in at most three queries.

    Published runs change only when something is judged again, which is an event: what was worked out for them is kept
    under the number of their newest event.
    """
    chosen = {run.pk: run for run in runs}
    published = [pk for pk, run in chosen.items() if run.is_published]
    events = RunEvent.objects.filter(run__in=published).order_by()
    newest = dict(events.values_list("run").annotate(newest=Max("id"))) if published else {}
    kept = {pk: _kept(pk, event) for pk, event in newest.items()}
    fresh = _worked_out({pk: run for pk, run in chosen.items() if not kept.get(pk)})
    for pk in fresh.keys() & kept.keys():
        kept[pk].append(fresh[pk])
    return {pk: fresh[pk] if pk in fresh else kept[pk][0] for pk in chosen}


@lru_cache(maxsize=500)  # as many as a board shows
def _kept(_run: uuid.UUID, _event: int) -> list[RunFigures]:
    """The figures of a run as of an event, the same list for each call; empty until they are worked out."""
    return []


def _worked_out(chosen: Mapping[uuid.UUID, Run]) -> dict[uuid.UUID, RunFigures]:
    if not chosen:
        return {}
    outcomes, written = _outcomes(chosen)
    sums: dict[uuid.UUID, Mapping[str, Any]] = {
        row["run"]: row
        for row in Attempt.objects.filter(run__in=chosen)
        .values("run")
        .annotate(cost=Sum("cost_usd"), tokens_in=Sum("tokens_in"), tokens_out=Sum("tokens_out"))
        .order_by()
    }
    return {
        pk: _figures(run, outcomes.get(pk, {}), sums.get(pk, {}), written.get(pk, {})) for pk, run in chosen.items()
    }


def _answered(asked: str, counted: Mapping[str, int]) -> str:
    """What a run's attempts are written in, where some are not in what its model was asked for."""
    if set(counted) <= {asked}:
        return ""
    return ", ".join(f"{number} {backend}" for backend, number in sorted(counted.items(), key=lambda pair: -pair[1]))


def _outcomes(
    runs: Mapping[uuid.UUID, Run],
) -> tuple[dict[uuid.UUID, dict[str, tuple[Sample, ...]]], dict[uuid.UUID, Counter[str]]]:
    """The outcome of every sample of every problem, and how many attempts are written in what.

    The outcome is that of the last ranked attempt; a sample without one has no result.
    """
    rows = (
        Attempt.objects.filter(run__in=runs)
        .order_by("run", "problem", "sample", "step")
        .values_list(
            "run",
            "problem",
            "sample",
            "mode",
            "state",
            "verdict",
            "score",
            "score_low",
            "score_high",
            "message",
            "evaluation__primitives",
            "evaluation__other_speedups",
            "evaluation__score_rule",
            "backend",
        )
    )
    written: dict[uuid.UUID, Counter[str]] = {}
    found: dict[uuid.UUID, dict[str, tuple[Sample, ...]]] = {}
    for (run, problem, _), grouped in groupby(rows, key=lambda row: row[:3]):
        steps = list(grouped)
        written.setdefault(run, Counter()).update(step[-1] for step in steps)
        ranked = [step for step in steps if step[3] == Mode.RANKED.value]
        last = ranked[-1] if ranked else None
        is_known = last is not None and last[4] == AttemptState.ENDED
        sample = Sample(verdict="", is_pending=last is not None and not is_known)
        if last and is_known:
            verdict, score, low, high, message, primitives, others, rule = last[5:-1]
            score, low, high = (score, low, high) if rule == SCORE_RULE else (None, None, None)
            sample = Sample(
                verdict=verdict,
                score=score,
                low=low,
                high=high,
                primitives=tuple(primitives or ()),
                ending=published_class(verdict, message),
                other_speedups=others or {},
            )
        of_run = found.setdefault(run, {})
        of_run[problem] = (*of_run.get(problem, ()), sample)
    return found, written


def _figures(
    run: Run, samples: Mapping[str, tuple[Sample, ...]], sums: Mapping[str, Any], written: Mapping[str, int]
) -> RunFigures:
    slugs = {problem.slug for problem in registry.problems()}
    counted = {slug: found for slug, found in samples.items() if slug in slugs}
    total = len(slugs)
    able = supported_problems(run.profile)
    unable = total - len(able.union(counted))
    measured = figures.measured(counted)
    of_measured = total - unable - (len(counted) - len(measured))
    bare = figures.without_verdict(counted, k=run.k, problems=total)
    is_complete = not bare.pending
    return RunFigures(
        problems=total,
        attempted=len(counted),
        able=able,
        measured=of_measured,
        programs=sum(map(len, counted.values())),
        judged=sum(bool(sample.verdict) for found in counted.values() for sample in found),
        solved=figures.solved(counted),
        correct_at_1=figures.fast_at(measured, None, k=1, problems=of_measured) if is_complete else None,
        correct_at_k=figures.fast_at(measured, None, k=run.k, problems=of_measured) if is_complete else None,
        best_of_k=figures.best_of(measured, k=run.k, problems=of_measured) if is_complete else None,
        bounds=figures.bounds(counted, k=1, problems=total, unable=unable),
        verdicts=figures.verdict_counts(counted),
        without_verdict=bare,
        primitives=figures.primitives_used(counted),
        cost_usd=run.cost_usd if sums.get("cost") is None else sums["cost"],
        tokens=_tokens(sums),
        samples=counted,
        answered=_answered(run.backend, written),
    )


def _tokens(sums: Mapping[str, Any]) -> int | None:
    """The tokens of all attempts in both directions; None where none declared any."""
    declared = [sums[name] for name in ("tokens_in", "tokens_out") if sums.get(name) is not None]
    return int(sum(declared)) if declared else None


def supported_problems(profile: str) -> frozenset[str]:
    """The problems that `profile` judges at its ranked sizes."""
    chosen = profiles.get(profile)
    sizes = chosen.sizes[Mode.RANKED]
    return frozenset(p.slug for p in registry.problems() if p.refuses(chosen.world_size, sizes) is None)


@dataclass(frozen=True, kw_only=True)
class ModelRow:
    """One published run on the model board.

    `prompt` is the version of the site's prompts that its model got; empty for another, or none declared. `place` is
    that among the runs with the same; None where the run is not ranked.
    """

    run: Run
    figures: RunFigures
    fast: Estimate | None
    prompt: str
    place: int | None = None


def board_runs() -> QuerySet[Run]:
    """The runs that boards show: published and not in quarantine."""
    return Run.objects.filter(state=RunState.PUBLISHED, is_quarantined=False).select_related("model__organisation")


def model_board(profile: str, *, p: float = 1.0, by_point: bool = False) -> list[ModelRow]:
    """The published runs on `profile` without quarantined ones: for each prompt, the best first.

    They are ordered by the lower bound of correct@1 over all problems, so that what is not measured gains nothing. Then
    fast_p@1 decides, then the earlier one. Runs that are not complete come last. Runs that a paired comparison cannot
    tell apart share a place.
    """
    runs = list(board_runs().filter(profile=profile))
    found = figures_of(runs)
    rows = [
        ModelRow(
            run=run,
            figures=found[run.pk],
            fast=found[run.pk].fast_at(p, by_point=by_point),
            prompt=prompts.name_of(run.prompt_version),
        )
        for run in runs
    ]
    rows.sort(
        key=lambda row: (
            not row.figures.is_complete,
            row.prompt != prompts.VERSION,
            not row.prompt,
            row.prompt,
            -row.figures.bounds.low,
            -row.figures.fast_bounds(p).low,
            row.run.published_at or row.run.created_at,
            str(row.run.pk),
        )
    )
    by_prompt = groupby(rows, key=lambda row: (row.figures.is_complete, row.prompt))
    return [placed for _, of_prompt in by_prompt for placed in _placed(of_prompt)]


def _placed(rows: Iterable[ModelRow]) -> list[ModelRow]:
    """The rows of one prompt with their places; runs that cannot be told apart share one."""
    found = list(rows)
    if not found[0].figures.is_complete:
        return found
    places = figures.places([(row.figures.samples, row.figures.able) for row in found])
    return [replace(row, place=place) for row, place in zip(found, places, strict=True)]


def board_profiles() -> dict[str, int]:
    """How many published runs each profile has that has any, those ranked by speed first."""
    used = dict(board_runs().order_by().values_list("profile").annotate(runs=Count("id")))
    chosen = [profile for name, profile in profiles.profiles().items() if name in used]
    ordered = sorted(chosen, key=lambda profile: not profile.is_ranked_by_speed)
    return {profile.name: used[profile.name] for profile in ordered}


def with_counts(runs: QuerySet[Run]) -> QuerySet[Run]:
    """The runs, each with `attempt_count` and `pending_count`."""
    return runs.annotate(
        attempt_count=Count("attempts"),
        pending_count=Count("attempts", filter=Q(attempts__state=AttemptState.PENDING)),
    )


def counts(run: Run) -> tuple[int, int]:
    """How many attempts the run has, and how many of them are pending."""
    row = run.attempts.aggregate(total=Count("id"), pending=Count("id", filter=Q(state=AttemptState.PENDING)))
    return row["total"], row["pending"]


def runs_of(model: LanguageModel, viewer: Viewer) -> QuerySet[Run]:
    """The runs of a model that `viewer` may see, the newest first, with their operators' decisions."""
    return (
        with_counts(visible_runs(viewer).filter(model=model))
        .prefetch_related(Prefetch("decisions"))
        .order_by("-created_at")
    )


def use_by_run(organisation: Organisation, *, now: datetime, most: int = 20) -> list[tuple[Run, float, float]]:
    """The organisation's runs with the GPU-seconds that each has used in 30 days and has reserved, the most first."""
    rows = list(
        GpuUse.objects.filter(organisation=organisation, at__gt=now - MONTH)
        .values_list("evaluation__submission__attempt__run")
        .annotate(used=Sum("used_gpu_s"), held=Sum("reserved_gpu_s", filter=Q(used_gpu_s=None)))
        .order_by("-used")[:most]
    )
    runs = Run.objects.select_related("model").in_bulk([pk for pk, _, _ in rows])
    uses = [(runs[pk], used or 0.0, held or 0.0) for pk, used, held in rows]
    return sorted(uses, key=lambda use: -(use[1] + use[2]))
