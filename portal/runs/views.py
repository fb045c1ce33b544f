"""The pages of models and runs: the model board, runs from making to publishing, comparisons, prompts."""

import hashlib
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from evaluator.contract import Backend
from evaluator.hardware.profiles import profiles
from portal.accounts.identity import changing, signed_in
from portal.accounts.organisations import open_invitations, own_organisations
from portal.catalog.queries import chosen_profile, get_problem, judging_profiles
from portal.catalog.size_times import SCORE, WAYS
from portal.charts.runs import fast_curves
from portal.core import live_links
from portal.core.errors import Refusal, choice, if_changed
from portal.ranking import leaders, published
from portal.runs import actions, matrix, page_data, prompts, queries
from portal.runs.figures import paired
from portal.runs.forms import FillForm, ImportForm, RunForm
from portal.runs.models import Run, RunMode
from portal.submissions.quotas import quota_of
from portal.tabular.tables import MEDIA_TYPES, as_download

PER_PAGE = 30
CURVES = 5
"""The most curves in one plot that readers can distinguish."""
REFUSED_SHOWN = 20
_NOT_HERE = "There is no such {field}."
_choice = partial(choice, message=_NOT_HERE)

MATRIX_FORMATS = ("csv", "jsonl")
_FOLDED = (("1", "Shares alone"),)


@require_safe
def models(request: HttpRequest) -> HttpResponse:
    """Models against problems: the verdict of one run of each model on every problem, by block, category or pattern."""
    grouping = _choice(request.GET, "rows", matrix.GROUPINGS, opening="block")
    every = matrix.candidates()
    columns = matrix.chosen(every, request.GET.getlist("run"))
    way, ways = _ways(request, [each.figures for each in columns])
    timed = [replace(each, figures=each.figures.by(way)) for each in columns]
    groups = matrix.groups(timed, matrix.GROUPINGS[grouping])
    if wanted := _choice(request.GET, "format", MATRIX_FORMATS):
        return as_download(matrix.table(groups), format=wanted, name="models-by-problems")
    context = {
        **ways,
        "columns": columns,
        "every": every,
        "groups": groups,
        "grouping": grouping,
        "groupings": [(name, facet.label) for name, facet in matrix.GROUPINGS.items()],
        "sentences": matrix.sentences(columns, groups),
        "most": matrix.MOST_COLUMNS,
        "folded": _choice(request.GET, "folded", dict(_FOLDED)),
        "foldings": _FOLDED,
        "chosen": urlencode([("run", str(each.run.pk)) for each in columns]),
        "source": published.figures()["results"],
    }
    return render(request, "runs/models.html", context)


@require_safe
def leaderboard(request: HttpRequest) -> HttpResponse:
    """The model board of one profile, prompt by prompt: correct@1, correct@k, fast_p, failure modes, cost."""
    used = queries.board_profiles()
    profile = chosen_profile(request, profiles(), entries=used or leaders.board_counts(), message=_NOT_HERE).name
    p, by_point = _speedup(request.GET.get("p", "")), _by_point(request)
    rows = queries.model_board(profile, p=p, by_point=by_point)
    ranked = [row for row in rows if row.figures.is_complete]
    named = [(_name(row), row.figures) for row in rows]
    kept = {"profile": profile, **({"faster": POINT} if by_point else {})}
    context = {
        "profile": profiles()[profile],
        "choices": [(each, used.get(each.name, 0)) for each in profiles().values()],
        "p": p,
        "boards": [(prompt, list(found)) for prompt, found in groupby(ranked, key=lambda row: row.prompt)],
        "versions": prompts.VERSIONS,
        "rows": ranked,
        "incomplete": [row for row in rows if not row.figures.is_complete],
        "has_k": any(row.run.k > 1 for row in ranked),
        **_figures(request, named, chosen=p, address=f"?{urlencode(kept)}&p="),
    }
    return render(request, "runs/leaderboard.html", context)


def _name(row: queries.ModelRow) -> str:
    """A run's name beside those of other prompts."""
    is_usual = row.prompt in ("", prompts.VERSION)
    return str(row.run.model) if is_usual else f"{row.run.model}, {prompts.VERSIONS[row.prompt].title}"


def _ways(request: HttpRequest, shown: Iterable[queries.RunFigures]) -> tuple[str, dict[str, Any]]:
    """The way of timing that the page is read by (`by` in its address), and what the page says of the choice."""
    way = _choice(request.GET, "by", WAYS, opening=SCORE)
    known = {SCORE, way}.union(*(figures.ways for figures in shown))
    offered = [(each, title) for each, title in WAYS.items() if each in known]
    return way, {"way": way, "way_title": WAYS[way], "ways": offered, "is_score": way == SCORE}


POINT = "point"
_FASTER = (("interval", "The whole interval"), (POINT, "The point estimate, as published"))
_ENDINGS = (("verdict", "By verdict"), ("published", "In the published classes"))


def _by_point(request: HttpRequest) -> bool:
    """Whether "faster" is asked for by point estimate, as in publications."""
    return _choice(request.GET, "faster", dict(_FASTER)) == POINT


def _figures(
    request: HttpRequest,
    named: Sequence[tuple[str, queries.RunFigures]],
    *,
    chosen: float | None = None,
    address: str = "",
) -> dict[str, Any]:
    """The plots of runs side by side and the tables beside them; two runs of one name are distinguished.

    The address may ask for "faster" by point estimate, and for failures in the published classes.

    `chosen` is the p that the curves mark, and `address` where a click on them leads, the p at its end.
    """
    seen: dict[str, int] = {}
    titled = []
    for name, figures in named:
        seen[name] = seen.get(name, 0) + 1
        titled.append((name if seen[name] == 1 else f"{name} ({seen[name]})", figures))
    few = [(name, figures) for name, figures in titled if figures.is_complete][:CURVES]
    by_point = _by_point(request)
    endings = _choice(request.GET, "endings", dict(_ENDINGS), opening="verdict")
    is_published = endings == "published"
    return {
        "curve": fast_curves(
            [(name, figures.fast(by_point=by_point)) for name, figures in few], chosen=chosen, address=address
        )
        if few
        else None,
        "curve_names": [name for name, _ in few],
        "curve_rows": page_data.curve_rows(dict(few), by_point=by_point),
        "faster": POINT if by_point else "interval",
        "faster_choices": _FASTER,
        "endings": endings,
        "endings_choices": _ENDINGS,
        "failures": page_data.failure_plot(titled, is_published=is_published) if titled else None,
        "failure_names": [name for name, _ in titled],
        "failure_rows": page_data.failure_rows(titled, is_published=is_published),
        "primitive_rows": page_data.primitive_rows(titled),
    }


@require_safe
def model(request: HttpRequest, slug: str) -> HttpResponse:
    """One model: its runs that the reader may see, their figures, curves and failure modes."""
    found = queries.get_model(request.user, slug)
    runs = list(queries.runs_of(found, request.user))
    by_score = queries.figures_of(runs)
    way, ways = _ways(request, by_score.values())
    figures = {pk: each.by(way) for pk, each in by_score.items()}
    context = {
        **ways,
        "model": found,
        "rows": [(run, figures[run.pk]) for run in runs],
        "has_k": any(run.k > 1 for run in runs),
        **_figures(request, [(f"{run.get_mode_display()}, {run.profile}", figures[run.pk]) for run in runs]),
    }
    return render(request, "runs/model.html", context)


@require_safe
@login_required
def mine(request: HttpRequest) -> HttpResponse:
    """The runs of the reader's organisations, with what is left of each quota."""
    user = signed_in(request)
    own = list(own_organisations(user))
    runs = queries.with_counts(queries.visible_runs(user).filter(model__organisation__in=own)).order_by("-created_at")
    context = {
        "page": Paginator(runs, PER_PAGE).get_page(request.GET.get("page")),
        "quotas": [quota_of(organisation, now=timezone.now()) for organisation in own],
        "invitations": list(open_invitations(user)),
    }
    return render(request, "runs/mine.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def new(request: HttpRequest) -> HttpResponse:
    user = signed_in(request)
    form = RunForm(request.POST or None, user=user)
    run = form.attempt(actions.create_run, user)
    if run is not None:
        messages.success(
            request, "The run was created. It is private and empty. Add attempts below or through the API."
        )
        return redirect("runs:run", run.pk)
    return render(request, "runs/new.html", {"form": form}, status=form.status)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def import_tree(request: HttpRequest) -> HttpResponse:
    """A tree of solutions becomes a run, or is only read; the answer says what was understood of it."""
    data, files = (request.POST, request.FILES) if request.method == "POST" else (None, None)
    user = signed_in(request)
    form = ImportForm(data, files, user=user)
    imported = understood = None
    if "preview" in request.POST:
        understood = form.attempt(actions.read_tree)
    else:
        imported = form.attempt(actions.import_tree, user)
    context = {"form": form, "imported": imported, "understood": imported["understood"] if imported else understood}
    return render(request, "runs/import.html", context, status=form.status)


def _context(request: HttpRequest, run: Run) -> dict[str, Any]:
    by_score = queries.run_figures(run)
    way, ways = _ways(request, [by_score])
    figures = by_score.by(way)
    total, pending = queries.counts(run)
    return {
        **ways,
        "run": run,
        "profile": profiles().get(run.profile),
        "figures": figures,
        "compared_ways": [(WAYS[each], by_score.by(each)) for each in by_score.ways],
        "cells": page_data.cells(run, figures),
        "total": total,
        "pending": pending,
        "judged": total - pending,
        "may_change": queries.may_change(request.user, run),
        "etag": _etag(run, total=total, pending=pending),
        "stream": live_links.address(live_links.Subject(live_links.Kind.RUN, str(run.pk))),
    }


def _etag(run: Run, *, total: int, pending: int) -> str:
    newest = run.events.order_by("-id").values_list("id", flat=True).first()
    parts = (run.pk, run.state, run.verification, run.is_quarantined, total, pending, newest)
    return f'"{hashlib.sha256(repr(parts).encode()).hexdigest()[:32]}"'


@require_safe
def run_page(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """One run: figures, a cell per problem, failure modes, an agent's progress, and what its owners may do."""
    return _run_page(request, queries.get_run(request.user, run_id))


def _run_page(request: HttpRequest, run: Run, **more: Any) -> HttpResponse:
    context = _context(request, run)
    figures: queries.RunFigures = context["figures"]
    steps = page_data.progress(run) if run.mode == RunMode.AGENTIC else []
    context |= {
        **_figures(request, [(str(run.model), figures)]),
        "groups": [
            (name, facet.label, matrix.groups([matrix.Column(run=run, figures=figures)], facet))
            for name, facet in matrix.GROUPINGS.items()
            if name in ("category", "source")
        ],
        "source": published.figures()["results"],
        "steps": steps,
        "step_plots": page_data.progress_plots(steps) if steps else [],
        "decisions": list(run.decisions.select_related("by")),
        "fill_form": FillForm(),
        "formats": tuple(MEDIA_TYPES),
        "others": queries.visible_runs(request.user).exclude(pk=run.pk).filter(profile=run.profile)[:20],
        **more,
    }
    return render(request, "runs/run.html", context, status=context["fill_form"].status)


@require_safe
def live(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """The part of a run's page that changes, for htmx; 304 while it has not."""
    run = queries.get_run(request.user, run_id)
    total, pending = queries.counts(run)
    etag = _etag(run, total=total, pending=pending)
    return if_changed(request, etag, lambda: render(request, "runs/_live.html", _context(request, run)))


@changing
def fill(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    run = queries.get_run(request.user, run_id)
    form = FillForm(request.POST, request.FILES)
    bulk = form.attempt(actions.add_lines, run, by=signed_in(request))
    if bulk is None:
        return _run_page(request, run, fill_form=form)
    trouble = [result for result in bulk.results if result.refusal is not None]
    if not trouble:
        counts = f"{bulk.counts['created']} attempts were added, {bulk.counts['repeated']} were stored already."
        messages.success(request, counts)
        return redirect("runs:run", run.pk)
    return _run_page(request, run, bulk=bulk, refused=trouble[:REFUSED_SHOWN], refused_count=len(trouble))


@changing
def publish(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    run = queries.get_run(request.user, run_id)
    actions.publish_run(run, by=signed_in(request), sources=request.POST.get("sources", ""))
    messages.success(request, "The run is now public.")
    return redirect("runs:run", run.pk)


@require_safe
def attempts(request: HttpRequest, run_id: uuid.UUID, slug: str) -> HttpResponse:
    """The results of a run's attempts at one problem, sample by sample and step by step."""
    run = queries.get_run(request.user, run_id)
    context = {
        "run": run,
        "figures": queries.run_figures(run),
        "problem": get_problem(slug),
        "rows": list(run.attempts.filter(problem=slug).order_by("sample", "step")),
        "is_open": queries.shows_sources(request.user, run),
    }
    return render(request, "runs/attempts.html", context)


@require_safe
def trajectory(request: HttpRequest, run_id: uuid.UUID, attempt_id: int) -> HttpResponse:
    """What an agent did on the way to an attempt."""
    run = queries.get_run(request.user, run_id)
    attempt = queries.get_attempt_with_trajectory(run, attempt_id, request.user)
    context = {"run": run, "attempt": attempt, "problem": get_problem(attempt.problem)}
    return render(request, "runs/trajectory.html", context)


@require_safe
def compare(request: HttpRequest) -> HttpResponse:
    """Two runs side by side: figures, curves, failure modes, and every problem."""
    chosen = [queries.get_run(request.user, request.GET.get(name, "")) for name in ("a", "b")]
    figures = queries.figures_of(chosen)
    rows = page_data.side_by_side([(run, figures[run.pk]) for run in chosen])
    able = frozenset.intersection(*(figures[run.pk].able for run in chosen))
    context = {
        "runs": chosen,
        "pairs": [(name, run, figures[run.pk]) for name, run in zip("AB", chosen, strict=True)],
        "has_k": any(run.k > 1 for run in chosen),
        "rows": rows,
        "are_of_one_prompt": len({run.prompt_version for run in chosen}) == 1,
        "counts": {each: Counter(word for _, word in rows)[each] for each in ("both", "only A", "only B", "neither")},
        "paired": paired(*(figures[run.pk].samples for run in chosen), able=able),
        **_figures(
            request, [(f"{name}: {run.model}", figures[run.pk]) for name, run in zip("AB", chosen, strict=True)]
        ),
    }
    return render(request, "runs/compare.html", context)


@require_safe
def prompt(request: HttpRequest, slug: str) -> HttpResponse:
    problem = get_problem(slug)
    choices = judging_profiles(problem)
    names = [each.name for each in choices]
    # What a vendor needs: hardware that has runs or measurements, and CUDA.
    profile = chosen_profile(request, names, entries=queries.board_profiles(), problem=slug, message=_NOT_HERE)
    backends = [backend.value for backend in profile.backends]
    known = _choice(request.GET, "backend", Backend, opening=Backend.CUDA.value)
    # Changing the profile may leave a backend behind that it does not judge: then the first that it does.
    backend = known if known in backends else backends[0]
    version = _choice(request.GET, "version", prompts.VERSIONS, opening=prompts.VERSION)
    context = {
        "problem": problem,
        "profiles": choices,
        "backends": backends,
        "versions": prompts.VERSIONS,
        "prompt": prompts.prompt_for(slug, backend=backend, profile=profile.name, version=version),
    }
    return render(request, "runs/prompt.html", context)


def _speedup(text: str) -> float:
    try:
        p = float(text or "1")
    except ValueError:
        p = -1.0
    if not 0 <= p <= 100:
        raise Refusal("p", text, "p must be a speedup from 0 to 100.", "Write a number such as 1.5.")
    return p
