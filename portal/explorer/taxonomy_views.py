"""The taxonomy browser."""

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from evaluator.contract import Primitive
from evaluator.hardware.profiles import profiles
from portal.catalog import facets, patterns
from portal.core.requests import choice
from portal.explorer import layers, taxonomy
from portal.explorer.layers import Edge, Layer
from portal.explorer.taxonomy import Quantity
from portal.ranking.leaders import best_leaders, board_counts, leaders, profiles_by_speed
from portal.ranking.queries import BoardRow
from portal.runs.solved import ModelResult, solved_by_models
from problems import registry
from problems.spec.schema import Problem
from problems.spec.taxonomy import Communication

_FEW = ("stage",)
"""The facets of a few values, which are rows of links; the others are lists."""
_BY_CHIPS = ("quantity", "profile", *_FEW)
"""What the rows of links choose, which the lists leave as it is."""


@require_safe
def browser(request: HttpRequest) -> HttpResponse:
    """Block by parallelism, narrowed by the other facets; a transformer's layers; the patterns of communication."""
    quantity = Quantity(choice(request.GET, "quantity", Quantity, opening=Quantity.COUNT))
    profile = choice(request.GET, "profile", profiles())
    primitive = choice(request.GET, "primitive", Primitive)
    layer = Layer(choice(request.GET, "layer", Layer, opening=Layer.DENSE))
    chosen = {facet.name: request.GET.get(facet.name, "") for facet in taxonomy.FACETS_BESIDE}
    every = registry.problems()
    left = facets.find(every, chosen=chosen)
    leading = _leaders_of(profile, primitive=primitive)
    shown = taxonomy.Shown(problems=left, leaders=leading, quantity=quantity, chosen=chosen)
    options = [(facet, facets.options(every, facet, chosen=chosen)) for facet in taxonomy.FACETS_BESIDE]
    counts = board_counts()
    context = {
        "table": _table(taxonomy.matrix(shown)),
        "count": len(left),
        "total": len(every),
        "few": [
            (facet, [(each["value"], f"{each['label']} ({each['count']})") for each in offered], chosen[facet.name])
            for facet, offered in options
            if facet.name in _FEW
        ],
        "facets": [(facet, offered) for facet, offered in options if facet.name not in _FEW],
        "kept": [(name, value) for name, value in request.GET.items() if value and name in _BY_CHIPS],
        "is_narrowed": any(chosen.values()) or bool(profile or primitive) or quantity is not Quantity.COUNT,
        "quantity": quantity,
        "quantities": taxonomy.LABELS.items(),
        "shades": enumerate(taxonomy.SHADE_LABELS[quantity], start=1),
        "profile": profiles()[profile] if profile else None,
        "profiles": [(each, counts.get(each.name, 0)) for each in profiles_by_speed()],
        "primitive": primitive,
        "primitives": list(Primitive),
        "layer": layer,
        "layers": layers.LABELS.items(),
        "drawing": _drawing(layer),
        "edges": _edges(layer, leading, solved_by_models(profile=profile or None)),
        "others": layers.other_blocks(every),
        "patterns": _patterns(),
    }
    return render(request, "taxonomy/browser.html", context)


@lru_cache(maxsize=64)
def _table(matrix: taxonomy.Matrix) -> SafeString:
    """The matrix as HTML, made once for equal ones: nothing in the table depends on anything else."""
    return render_to_string("taxonomy/_matrix.html", {"matrix": matrix})


@cache
def _drawing(layer: Layer) -> SafeString:
    """The lanes of a layer: the same for every reader while the process lives."""
    every = registry.problems()
    found = {name: (edge, len(edge.problems(every))) for name, edge in layers.edges(layer).items()}
    return render_to_string("taxonomy/_layer.html", {"lanes": layers.lanes(layer), "edges": found})


def _edges(
    layer: Layer, leading: Mapping[str, Sequence[BoardRow]], solving: Mapping[str, ModelResult]
) -> list[tuple[str, Edge, list[tuple[Problem, BoardRow | None, ModelResult | None]]]]:
    """Every edge of the drawing with its problems, who leads each of them, and which models solve it."""
    every = registry.problems()
    return [
        (
            name,
            edge,
            [
                (each, next(iter(leading.get(each.slug, ())), None), solving.get(each.slug))
                for each in edge.problems(every)
            ],
        )
        for name, edge in layers.edges(layer).items()
    ]


@cache
def _patterns() -> SafeString:
    """The patterns of communication: the same for every reader while the process lives."""
    every = registry.problems()
    context = {
        "patterns": [
            (patterns.pattern(value), sum(value in problem.communication for problem in every))
            for value in Communication
        ],
        "rank_rows": patterns.rank_rows(),
    }
    return render_to_string("taxonomy/_patterns.html", context)


def _leaders_of(profile: str, *, primitive: str) -> dict[str, list[BoardRow]]:
    """The leaders of the boards on `profile` that use `primitive`, any where either is empty, by problem.

    Where no primitive is asked for, the best board of a problem speaks for all of them.
    """
    if not primitive:
        return {slug: [leader] for slug, leader in best_leaders(profile=profile or None).items()}
    found: dict[str, list[BoardRow]] = {}
    for leader in leaders(profile=profile or None).values():
        if primitive in leader.primitives:
            found.setdefault(leader.problem, []).append(leader)
    return found
