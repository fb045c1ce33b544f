"""What others show of this site: pictures of shared links."""

import hashlib
import uuid
from dataclasses import replace

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from evaluator.hardware import profiles
from evaluator.hardware.profiles import Profile
from portal.catalog import rooflines
from portal.catalog.costs import judging_profiles
from portal.catalog.hardware import opening_profile
from portal.catalog.queries import get_problem
from portal.catalog.rooflines import Axis
from portal.charts.cards import Card, card_svg
from portal.charts.chart import Chart
from portal.charts.pictures import png
from portal.core import speedups
from portal.core.requests import choice
from portal.ranking import people, queries
from portal.ranking.leaders import board_counts, leaders
from portal.runs.queries import get_run, run_figures
from problems import registry

_MAX_AGE_S = 600


def _board_profile(request: HttpRequest, slug: str) -> Profile:
    """The profile that is asked for, else the one of the problem's boards with most entries.

    Raises:
        Refusal: there is no such profile (404).
    """
    names = [profile.name for profile in judging_profiles(get_problem(slug))]
    opening = opening_profile(names, entries=queries.boards_of(slug), problem=slug)
    return profiles.get(choice(request.GET, "profile", profiles.profiles(), opening=opening))


def _kept(response: HttpResponse) -> HttpResponse:
    response["Cache-Control"] = f"public, max-age={_MAX_AGE_S}"
    return response


def _roofline_profile(request: HttpRequest) -> Profile:
    known = {profile.name: profile for profile in rooflines.gpu_profiles()}
    opening = opening_profile(known, entries=board_counts())
    return known[choice(request.GET, "profile", known, opening=opening, message="There are no rooflines of {value}.")]


def _roofline(profile: Profile) -> Chart:
    best = {leader.problem: leader for leader in leaders(profile=profile.name).values()}
    points = [point for point in rooflines.points(profile.name, best) if point.work.size == "base"]
    return rooflines.explorer_figure(points, profile=profile, axis=Axis.WIRE, window=None)


def _picture(card: Card) -> HttpResponse:
    """The card as PNG; equal cards are drawn once in a while."""
    drawn = card_svg(card)
    key = f"card-{hashlib.sha256(drawn.encode()).hexdigest()}"
    made = cache.get_or_set(key, lambda: png(drawn, zoom=1.0), _MAX_AGE_S)
    return _kept(HttpResponse(made, content_type="image/png"))


@require_safe
def problem_card(request: HttpRequest, slug: str) -> HttpResponse:
    return _picture(card_of_problem(slug, _board_profile(request, slug)))


def card_of_problem(slug: str, profile: Profile) -> Card:
    """What a link to a board shows: its first entry, with the mark of one that was judged elsewhere, or “open”."""
    problem = get_problem(slug)
    first = next(iter(queries.board(slug, profile=profile.name, limit=1)), None)
    if first is None or not profile.is_ranked_by_speed:
        return Card(title=problem.title, figure="open", caption=problem.summary)
    interval = speedups.interval(first.low, first.high)
    caption = f"{first.author} over PyTorch + NCCL on {profile.title}, all sizes, interval {interval}"
    if first.recorded:
        caption += f", {first.recorded}"
    return Card(title=problem.title, figure=speedups.factor(first.score, first.low, first.high), caption=caption)


@require_safe
def roofline_card(request: HttpRequest) -> HttpResponse:
    profile = _roofline_profile(request)
    chart = replace(_roofline(profile), is_wide=False, height=340)
    solved = len(leaders(profile=profile.name))
    caption = f"problems solved on {profile.title}, with the limits of the hardware"
    figure = f"{solved} / {len(registry.problems())}"
    return _picture(Card(title=f"Rooflines on {profile.title}", figure=figure, caption=caption, chart=chart))


@require_safe
def person_card(_request: HttpRequest, username: str) -> HttpResponse:
    """Somebody with the number of problems solved faster, on the profile where these are most."""
    person = people.get_person(username)
    best = max(people.totals_of(person), key=lambda total: (total.faster, total.solved), default=None)
    if best is None:
        return _picture(Card(title=person.username, figure="0", caption="problems solved so far"))
    caption = f"problems faster than PyTorch + NCCL on {best.profile}; {best.solved} solved"
    return _picture(Card(title=person.username, figure=str(best.faster), caption=caption))


@require_safe
def run_card(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    run = get_run(request.user, run_id)
    figures = run_figures(run)
    so_far = "" if figures.is_complete else f", {figures.judged} of {figures.programs} programs judged"
    how = f"{run.get_mode_display()} in {run.backend}"
    caption = f"problems solved{so_far}, {figures.faster} faster than PyTorch + NCCL; {how}"
    card = Card(title=f"{run.model} on {run.profile}", figure=f"{figures.solved} / {figures.problems}", caption=caption)
    response = _picture(card)
    response["Cache-Control"] = "private, no-store" if not run.is_published else response["Cache-Control"]
    return response
