"""Public data (problems, profiles, boards, nodes), also as files, and the caller's own account and organisations.

Who belongs to an organisation is changed on its page.
"""

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from threading import BoundedSemaphore
from typing import IO, Any, Self

from asgiref.sync import sync_to_async
from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.http import http_date
from rest_framework.request import Request
from rest_framework.throttling import AnonRateThrottle
from rest_framework.utils.urls import remove_query_param, replace_query_param

from evaluator.contract import SCORE_RULE
from evaluator.hardware import profiles
from portal.accounts import organisations
from portal.accounts.identity import signed_in
from portal.accounts.models import ApiToken, Organisation, TokenScope
from portal.api import catalog_outputs, run_inputs
from portal.api.base import SIGNED_IN, Resource, file_of, operation
from portal.api.catalog_outputs import ForecastOutput
from portal.api.inputs import BoardQuery, ProblemQuery
from portal.api.run_outputs import (
    DeliveryOutput,
    NewWebhookOutput,
    OrganisationOutput,
    QuotaOutput,
    WebhookOutput,
)
from portal.catalog.models import ProblemSwitch
from portal.catalog.queries import get_problem, get_profile
from portal.core.errors import TooMany
from portal.deliveries import actions
from portal.deliveries.models import Delivery
from portal.deliveries.models import Endpoint as Webhook
from portal.deliveries.queries import get_webhook
from portal.exports import files, tables
from portal.nodes.models import Node
from portal.nodes.queries import online_slots, shown_nodes
from portal.ranking.queries import BoardKey, board_page, boards_of, quarantined_entries
from portal.runs import queries
from portal.seasons import queries as seasons
from portal.submissions.quotas import Forecast, Limit, forecasts, limits_of, payer_of_author, payer_of_runs, quota_of
from portal.tabular.tables import MEDIA_TYPES, Table, written
from problems import registry
from problems.spec.schema import Problem

BOARD_PAGE_ROWS = 50


class Problems(Resource):
    tag = "Problems"

    def get_serializer_context(self) -> dict[str, Any]:
        """The problems that take no submissions now and whether hints are asked for, beside what is usual."""
        closed = set(ProblemSwitch.objects.filter(is_open=False).values_list("slug", flat=True))
        return {**super().get_serializer_context(), "closed": closed, "has_hints": self.query.get("hints", False)}

    @operation("listProblems", "List the problems", catalog_outputs.ProblemBrief, many=True)
    def list(self, _request: Request) -> tuple[Problem, ...]:
        """Every problem by number, without statements and references."""
        return registry.problems()

    @operation("readProblem", "Read a problem", catalog_outputs.ProblemDetail, query=ProblemQuery)
    def retrieve(self, _request: Request, slug: str) -> Problem:
        """A problem with its statement, reference, arguments, outputs, tolerances, sizes and costs.

        As in prompts, what makes a kernel fast and how inputs are drawn is there only where `hints` ask for it.
        """
        return get_problem(slug)


class Leaderboard(Resource):
    tag = Problems.tag

    @operation("readLeaderboard", "Read a problem's leaderboard", catalog_outputs.BoardOutput, query=BoardQuery)
    def retrieve(self, request: Request, slug: str) -> dict[str, Any]:
        """The best accepted ranked evaluation of every author on a profile, best first, page by page."""
        problem = get_problem(slug)
        wanted = self.query
        profile = get_profile(wanted["profile"])
        key = BoardKey(
            problem=problem.slug,
            profile=profile.name,
            revision=registry.revision(problem.slug),
            backend=wanted.get("backend"),
            primitive=wanted.get("primitive"),
        )
        cursors = {name: wanted[name] for name in ("after", "before") if name in wanted}
        page = board_page(key, rows=wanted.get("page_size", BOARD_PAGE_ROWS), **cursors)
        return {
            "problem": problem.slug,
            "revision": key.revision,
            "profile": profile.name,
            "backend": key.backend,
            "primitive": key.primitive,
            "is_ranked_by_speed": profile.is_ranked_by_speed,
            "score_rule": SCORE_RULE,
            "total": boards_of(problem.slug).get(profile.name, 0),
            "next": _part(request, after=page.after),
            "previous": _part(request, before=page.before),
            "entries": page.rows,
            "quarantined": quarantined_entries(key),
        }


def _part(request: Request, **cursor: str | None) -> str | None:
    """The address of another part of the same board; None where there is none."""
    [(name, word)] = cursor.items()
    if word is None:
        return None
    here = remove_query_param(remove_query_param(request.build_absolute_uri(), "after"), "before")
    return replace_query_param(here, name, word)


class Profiles(Resource):
    tag = "Judging"

    def get_serializer_context(self) -> dict[str, Any]:
        """How many slots take each profile's work now, beside what is usual."""
        online = Counter(online_slots().values_list("profile", flat=True))
        return {**super().get_serializer_context(), "slots_online": online}

    @operation("listProfiles", "List the profiles", catalog_outputs.ProfileOutput, many=True)
    def list(self, _request: Request) -> tuple[profiles.Profile, ...]:
        """Hardware and world sizes, what can be judged there, and how many slots take work now."""
        return tuple(profiles.profiles().values())


class Nodes(Resource):
    tag = "Judging"

    @operation("listNodes", "List the nodes", catalog_outputs.NodeOutput, many=True)
    def list(self, _request: Request) -> QuerySet[Node, Any]:
        """The machines that judge, their slots, and what they run on."""
        return shown_nodes()


class Me(Resource):
    tag = "Account"
    read_scope = TokenScope.READ
    permission_classes = SIGNED_IN

    @operation("readMe", "Read who is calling", catalog_outputs.MeOutput)
    def retrieve(self, request: Request) -> dict[str, Any]:
        """Who is calling, by which token, and how much of the queue is theirs."""
        user = signed_in(request)
        together = limits_of(payer_of_author(user), now=timezone.now())[0]
        return {
            "username": user.username,
            "token": request.auth if isinstance(request.auth, ApiToken) else None,
            "queued": together.queued,
            "queued_limit": together.queued_at_most,
        }

    @operation(
        "readAllowance",
        "Read a submission's cost, and what is left of the allowance",
        catalog_outputs.ForecastOutput,
        many=True,
    )
    def allowance(self, request: Request) -> Sequence[Forecast]:
        """For every profile: the largest cost of one more own evaluation, what is left today, and when it renews.

        Runs of models draw on their organisation's allowance, which is read there (`readQuota`).
        """
        return forecasts(payer_of_author(signed_in(request)), profiles.profiles(), now=timezone.now())


_ZIP = "application/zip"
_TABLE_FILE = file_of(*(media_type.partition(";")[0] for media_type in MEDIA_TYPES.values()))
_CHUNK = 256 * 1024
DOWNLOADS = 8
# A download keeps a thread and perhaps a database connection for as long as its reader takes.
_downloading = BoundedSemaphore(DOWNLOADS)


class ExportRate(AnonRateThrottle):
    """How often a caller without a token may fetch a whole table."""

    scope = "exports"


class _Download:
    """Pieces of a file, and the download slot that it occupies: released when the response is closed.

    Each piece is made when the reader has taken the one before.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        if not _downloading.acquire(blocking=False):
            message = f"{DOWNLOADS} other downloads are running, which is the limit."
            raise TooMany("", "", message, "Try again in a few seconds.", retry_after_s=5)
        self._pieces = pieces
        self._is_open = True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece = await sync_to_async(lambda: next(self._pieces, None))()
        if piece is None:
            raise StopAsyncIteration
        return piece

    def close(self) -> None:
        """Release the download slot; Django calls it when the response has been sent or its reader has gone."""
        if self._is_open:
            self._is_open = False
            _downloading.release()


def _sent(pieces: Iterator[bytes], *, name: str, media_type: str) -> StreamingHttpResponse:
    response = StreamingHttpResponse(_Download(pieces), content_type=media_type)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _written(table: Table, name: str, format_name: str) -> StreamingHttpResponse:
    return _sent(written(table, format=format_name), name=f"{name}.{format_name}", media_type=MEDIA_TYPES[format_name])


def _kept_file(name: str, *, media_type: str) -> StreamingHttpResponse:
    """A file that was made beforehand; `Last-Modified` says as of when it is."""
    file, made_at = files.opened(name)
    response = _sent(_pieces(file), name=name, media_type=media_type)
    response["Content-Length"] = str(file.seek(0, 2))
    file.seek(0)
    response["Last-Modified"] = http_date(made_at.timestamp())
    return response


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(_CHUNK):
            yield piece


class _Exports(Resource):
    """Public data: open to everybody, as often as `ExportRate` allows."""

    tag = "Exports"
    throttle_classes = (AnonRateThrottle, ExportRate)


class RunExport(_Exports):
    read_scope = TokenScope.RUNS_READ

    @operation("exportRun", "Export a run's attempts", _TABLE_FILE, query=run_inputs.FormatQuery)
    def retrieve(self, request: Request, run_id: uuid.UUID) -> HttpResponseBase:
        """One row per attempt, by problem, sample and step."""
        table = tables.attempts_of(queries.get_run(request.user, run_id))
        return _written(table, table.name, self.query["format"])


class SeasonPeople(_Exports):
    @operation("exportSeasonPeople", "Export a season's people by problems", _TABLE_FILE, query=run_inputs.FormatQuery)
    def retrieve(self, request: Request, slug: str) -> HttpResponseBase:
        """One row per person and problem that they have tried, once the season shows what others have reached."""
        season = seasons.get_season(slug, request.user)
        seasons.require_board(season, request.user, timezone.now())
        return _written(seasons.people_table(season), f"{slug}-people", self.query["format"])


class PublicData(_Exports):
    @operation("exportTable", "Export a table of public data", _TABLE_FILE, query=run_inputs.FormatQuery)
    def table(self, _request: Request, table: str) -> HttpResponseBase:
        """Leaderboards, models, runs, attempts, evaluations, season entries: public ones, about 10 minutes old."""
        format_name = self.query["format"]
        return _kept_file(f"{tables.get_table(table).name}.{format_name}", media_type=MEDIA_TYPES[format_name])

    @operation("exportDataset", "Export all public data", file_of(_ZIP))
    def dataset(self, _request: Request) -> HttpResponseBase:
        """Every table as JSON Lines, the problems, a schema and a data card; about 10 minutes old."""
        return _kept_file(files.DATASET, media_type=_ZIP)


_LOGGED = 200


class _Organisations(Resource):
    """What concerns organisations: nobody reads it without signing in."""

    tag = "Organisations"
    read_scope = TokenScope.RUNS_READ
    write_scope = TokenScope.RUNS_WRITE
    permission_classes = SIGNED_IN


def _organisation(request: Request, slug: str) -> Organisation:
    return organisations.get_organisation(signed_in(request), slug)


def _webhook(request: Request, slug: str, webhook_id: int) -> Webhook:
    return get_webhook(_organisation(request, slug), webhook_id)


class Organisations(_Organisations):
    @operation("listOrganisations", "List own organisations", OrganisationOutput, many=True)
    def list(self, request: Request) -> Any:
        """The organisations that the caller belongs to."""
        return organisations.own_organisations(signed_in(request))

    @operation(
        "createOrganisation",
        "Create an organisation",
        OrganisationOutput,
        status=201,
        body=run_inputs.OrganisationInput,
        refuses=(409,),
    )
    def create(self, request: Request) -> Organisation:
        """A new organisation, which the caller owns."""
        return organisations.create_organisation(signed_in(request), **self.body())

    @operation("readOrganisation", "Read an organisation", OrganisationOutput)
    def retrieve(self, request: Request, slug: str) -> Organisation:
        """An organisation that the caller belongs to."""
        return _organisation(request, slug)

    @operation("readOrganisationAllowance", "Read the cost of a run's evaluations", ForecastOutput, many=True)
    def allowance(self, request: Request, slug: str) -> Sequence[Forecast]:
        """For every profile: the largest cost of one more evaluation, what is left today, and when it renews.

        It is the allowance of the sponsor's organisations together, or the organisation's own. The quota of 30 days
        counts beside it.
        """
        return forecasts(payer_of_runs(_organisation(request, slug)), profiles.profiles(), now=timezone.now())

    @operation("readQuota", "Read the quota", QuotaOutput)
    def quota(self, request: Request, slug: str) -> Limit:
        """GPU-seconds used, reserved and left in any 30 days."""
        return quota_of(_organisation(request, slug), now=timezone.now())


class Webhooks(_Organisations):
    @operation("listWebhooks", "List webhooks", WebhookOutput, many=True)
    def list(self, request: Request, slug: str) -> Any:
        """The addresses that receive events, removed ones included; secrets are not shown."""
        return _organisation(request, slug).webhooks.all()

    @operation(
        "addWebhook", "Add a webhook", NewWebhookOutput, status=201, body=run_inputs.WebhookInput, refuses=(409,)
    )
    def create(self, request: Request, slug: str) -> Webhook:
        """Add an address that receives events; the secret that signs them is only in this response. For owners."""
        return actions.add_webhook(_organisation(request, slug), by=signed_in(request), **self.body())

    @operation("removeWebhook", "Remove a webhook", WebhookOutput)
    def remove(self, request: Request, slug: str, webhook_id: int) -> Webhook:
        """Stop sending events to an address; its log stays. For owners."""
        webhook = _webhook(request, slug, webhook_id)
        actions.remove_endpoint(webhook, by=signed_in(request))
        webhook.refresh_from_db()
        return webhook

    @operation("tryWebhook", "Try a webhook", DeliveryOutput, status=202, refuses=(409,))
    def test(self, request: Request, slug: str, webhook_id: int) -> Delivery:
        """Have a `webhook.test` sent once, in a second or so; the log says what was answered. For owners."""
        return actions.send_test(_webhook(request, slug, webhook_id), by=signed_in(request))

    @operation("listDeliveries", "Read a webhook's log", DeliveryOutput, many=True)
    def deliveries(self, request: Request, slug: str, webhook_id: int) -> Any:
        """The last 200 deliveries, newest first: event, number of tries, response."""
        return _webhook(request, slug, webhook_id).deliveries.select_related("event")[:_LOGGED]
