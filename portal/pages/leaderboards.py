"""The way into the boards: the head of each on the profile where most has happened, models first."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evaluator.hardware import profiles
from portal.catalog.hardware import last_choice, opening_profile
from portal.ranking.leaders import board_counts, leaders
from portal.ranking.people import people_page
from portal.ranking.queries import records_page
from portal.runs.queries import board_profiles, model_board
from portal.runs.solved import solved_here
from problems import registry

HEAD_ROWS = 5


@require_safe
def leaderboards(request: HttpRequest) -> HttpResponse:
    """Models, problems, people, records and what is open, a few lines each."""
    counts, runs = board_counts(), board_profiles()
    profile = profiles.get(opening_profile(profiles.profiles(), entries=counts, last=last_choice(request, counts)))
    model_profile = profiles.get(next(iter(runs), profile.name))
    found = sorted(leaders(profile=profile.name).values(), key=lambda leader: leader.score, reverse=True)
    board = model_board(model_profile.name) if runs else []
    ranked = [row for row in board if row.figures.is_complete]
    context = {
        "profile": profile,
        "total": len(registry.problems()),
        "models": [row for row in ranked if row.prompt == ranked[0].prompt][:HEAD_ROWS],
        "incomplete": [row for row in board if not row.figures.is_complete][:HEAD_ROWS],
        "model_profile": model_profile,
        "run_count": runs.get(model_profile.name, 0),
        "leaders": found[:HEAD_ROWS],
        "people": people_page(profile=profile.name, rows=HEAD_ROWS).rows,
        "records": records_page(rows=HEAD_ROWS).rows,
        "titles": {problem.slug: problem.title for problem in registry.problems()},
        "so_far": solved_here(),
    }
    return render(request, "leaderboards.html", context)
