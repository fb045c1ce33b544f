"""Public data (problems, profiles, boards, nodes) and the caller's own account."""

from collections import Counter
from typing import Any

from django.conf import settings
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import remove_query_param, replace_query_param

from evaluator.hardware import profiles
from portal.accounts.models import ApiToken, TokenScope
from portal.api.catalog_outputs import (
    BoardOutput,
    MeOutput,
    NodeOutput,
    ProblemBrief,
    ProblemDetail,
    ProfileOutput,
)
from portal.api.endpoint import Endpoint, caller
from portal.api.inputs import BoardQuery, NoQuery, read
from portal.api.schema import answers
from portal.catalog.models import ProblemSwitch
from portal.catalog.queries import get_problem
from portal.nodes.queries import node_views, online_slots
from portal.ranking.queries import BoardKey, board_page, boards_of
from portal.refusals import Refusal
from portal.submissions.models import Evaluation, State
from problems import registry

BOARD_PAGE_ROWS = 50
_SLUG = OpenApiParameter("slug", str, "path", description="A problem's name, such as `allreduce`.")


def _context(request: Request) -> dict[str, Any]:
    closed = set(ProblemSwitch.objects.filter(is_open=False).values_list("slug", flat=True))
    return {"request": request, "closed": closed}


class Problems(Endpoint):
    """Every problem."""

    @extend_schema(
        operation_id="listProblems",
        summary="List the problems",
        tags=["Problems"],
        responses=answers({200: ProblemBrief(many=True)}, 422),
    )
    def get(self, request: Request) -> Response:
        """Every problem by number, without statements and references."""
        read(NoQuery, request.query_params)
        every: Any = registry.problems()
        return Response(ProblemBrief(every, many=True, context=_context(request)).data)


class ProblemView(Endpoint):
    """One problem."""

    @extend_schema(
        operation_id="readProblem",
        summary="Read a problem",
        tags=["Problems"],
        parameters=[_SLUG],
        responses=answers({200: ProblemDetail}, 404, 422),
    )
    def get(self, request: Request, slug: str) -> Response:
        """A problem with its statement, reference, arguments, outputs, tolerances, sizes and costs."""
        read(NoQuery, request.query_params)
        return Response(ProblemDetail(get_problem(slug), context=_context(request)).data)


class Leaderboard(Endpoint):
    """The board of a problem."""

    @extend_schema(
        operation_id="readLeaderboard",
        summary="Read a problem's leaderboard",
        tags=["Problems"],
        parameters=[_SLUG, BoardQuery],
        responses=answers({200: BoardOutput}, 404, 422),
    )
    def get(self, request: Request, slug: str) -> Response:
        """The best accepted ranked evaluation of every author on a profile, best first, page by page."""
        problem = get_problem(slug)
        wanted = read(BoardQuery, request.query_params)
        profile = _profile(wanted["profile"])
        key = BoardKey(
            problem=problem.slug,
            profile=profile.name,
            revision=registry.revision(problem.slug),
            backend=wanted.get("backend"),
            primitive=wanted.get("primitive"),
        )
        page = board_page(
            key,
            after=wanted.get("after", ""),
            before=wanted.get("before", ""),
            rows=wanted.get("page_size", BOARD_PAGE_ROWS),
        )
        shown = {
            "problem": problem.slug,
            "revision": key.revision,
            "profile": profile.name,
            "backend": key.backend,
            "primitive": key.primitive,
            "is_ranked_by_speed": profile.is_ranked_by_speed,
            "total": boards_of(problem.slug).get(profile.name, 0),
            "next": _part(request, after=page.after),
            "previous": _part(request, before=page.before),
            "entries": page.rows,
        }
        return Response(BoardOutput(shown).data)


def _part(request: Request, **cursor: str | None) -> str | None:
    """The address of another part of the same board; None where there is none."""
    [(name, word)] = cursor.items()
    if word is None:
        return None
    here = request.build_absolute_uri()
    for held in ("after", "before"):
        here = remove_query_param(here, held)
    return replace_query_param(here, name, word)


def _profile(name: str) -> profiles.Profile:
    try:
        return profiles.get(name)
    except profiles.UnknownProfile as error:
        known = ", ".join(profiles.profiles())
        raise Refusal(
            field="profile", value=name, message="There is no such profile.", remedy=f"Known are {known}."
        ) from error


class Profiles(Endpoint):
    """Every profile."""

    @extend_schema(
        operation_id="listProfiles",
        summary="List the profiles",
        tags=["Judging"],
        responses=answers({200: ProfileOutput(many=True)}, 422),
    )
    def get(self, request: Request) -> Response:
        """Hardware and world sizes, what can be judged there, and how many slots take work now."""
        read(NoQuery, request.query_params)
        online = Counter(online_slots().values_list("profile", flat=True))
        every: Any = tuple(profiles.profiles().values())
        return Response(ProfileOutput(every, many=True, context={"slots_online": online}).data)


class Nodes(Endpoint):
    """Every node."""

    @extend_schema(
        operation_id="listNodes",
        summary="List the nodes",
        tags=["Judging"],
        responses=answers({200: NodeOutput(many=True)}, 422),
    )
    def get(self, request: Request) -> Response:
        """The machines that judge, their slots, and what they run on."""
        read(NoQuery, request.query_params)
        return Response(NodeOutput(node_views(), many=True).data)


class Me(Endpoint):
    """The caller."""

    signed_in = frozenset({"GET", "HEAD"})
    scopes = {"GET": TokenScope.READ, "HEAD": TokenScope.READ}

    @extend_schema(
        operation_id="readMe",
        summary="Read who is calling",
        tags=["Account"],
        responses=answers({200: MeOutput}, 403, 422),
    )
    def get(self, request: Request) -> Response:
        """Who is calling, by which token, and how much of the queue is theirs."""
        read(NoQuery, request.query_params)
        user = caller(request)
        waiting = Evaluation.objects.filter(submission__author=user, submission__is_attempt=False).exclude(
            state__in=State.ended()
        )
        shown = {
            "username": user.username,
            "token": request.auth if isinstance(request.auth, ApiToken) else None,
            "queued": waiting.count(),
            "queued_limit": settings.MAX_QUEUED_PER_AUTHOR,
        }
        return Response(MeOutput(shown).data)
