"""Models and their runs: create, fill, follow, publish, read."""

import time
import uuid
from tempfile import TemporaryFile
from threading import BoundedSemaphore
from typing import IO, Any, cast

from django.db import connection
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from evaluator.hardware import profiles
from portal.accounts.models import TokenScope
from portal.api import inputs, run_inputs
from portal.api.endpoint import Endpoint, caller, viewer
from portal.api.pagination import NewestFirst, SmallestFirst
from portal.api.parsers import ArchiveForm, ArchiveStream, BytesStream, JSONParser, LinesStream
from portal.api.run_outputs import (
    AttemptOutput,
    BulkOutput,
    FeedOutput,
    ImportOutput,
    ModelBoardOutput,
    ModelOutput,
    ProgressOutput,
    PromptOutput,
    RunBrief,
    RunDetail,
    TrajectoryOutput,
)
from portal.api.schema import NUMBER, answers
from portal.refusals import Refusal
from portal.runs import actions, queries, uploads
from portal.runs.models import Run, RunEvent
from portal.runs.progress import progress
from portal.runs.prompts import prompt_for

_READ = {"GET": TokenScope.RUNS_READ, "HEAD": TokenScope.RUNS_READ}
_WRITE = {"POST": TokenScope.RUNS_WRITE}
_SLUG = OpenApiParameter("slug", str, "path", description="A problem's name, such as `allreduce`.")
_MODEL = OpenApiParameter("slug", str, "path", description="A model's short name.")
_RUN_ID = OpenApiParameter("run_id", OpenApiTypes.UUID, "path", description="The `id` of a run.")
_ATTEMPT_ID = OpenApiParameter("attempt_id", NUMBER, "path", description="The `id` of an attempt.")
_LOCATION = OpenApiParameter(
    "Location", OpenApiTypes.URI, "header", response=[201], description="The address of what was created."
)
_RETRY_AFTER = OpenApiParameter(
    "Retry-After", int, "header", response=[200], description="Seconds after which lines over quota may be sent again."
)
_IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 100, "pattern": "^[ -~]+$"},
    "header",
    description="Repeating a call with the same key gives the same run instead of another. The same key with anything "
    "else but another provider or other notes is refused with 409, which names what differs.",
)
_BYTES = {"type": "string", "format": "binary"}

_LOOK_EVERY_S = 0.5
_HELD_CALLS = 3
# Held calls keep a thread of the web server each; the few that remain must go on answering.
_holding = BoundedSemaphore(_HELD_CALLS)


def run_body(request: Request, run: Run) -> dict[str, Any]:
    """A run with its counts and figures, as every answer shows it."""
    run = queries.with_counts(queries.visible_runs(viewer(request)).filter(pk=run.pk)).get()
    context = {"request": request, "figures": queries.run_figures(run)}
    return dict(RunDetail(run, context=context).data)


class PromptView(Endpoint):
    """The task prompt of a problem."""

    @extend_schema(
        operation_id="readPrompt",
        summary="Read a problem's task prompt",
        tags=["Problems"],
        parameters=[_SLUG, run_inputs.PromptQuery],
        responses=answers({200: PromptOutput}, 404, 422),
    )
    def get(self, request: Request, slug: str) -> Response:
        """What a model is told: reference, signature, sizes, hardware, rules, a worked example of another problem."""
        wanted = inputs.read(run_inputs.PromptQuery, request.query_params)
        return Response(PromptOutput(prompt_for(slug, **wanted)).data)


class Models(Endpoint):
    """Every model."""

    scopes = _READ

    @extend_schema(
        operation_id="listModels",
        summary="List the models",
        tags=["Runs"],
        responses=answers({200: ModelOutput(many=True)}, 403, 422),
    )
    def get(self, request: Request) -> Response:
        """The models with a published run, and those of own organisations."""
        inputs.read(inputs.NoQuery, request.query_params)
        every: Any = queries.visible_models(viewer(request))
        return Response(ModelOutput(every, many=True).data)


class ModelView(Endpoint):
    """One model."""

    scopes = _READ

    @extend_schema(
        operation_id="readModel",
        summary="Read a model",
        tags=["Runs"],
        parameters=[_MODEL],
        responses=answers({200: ModelOutput}, 403, 404, 422),
    )
    def get(self, request: Request, slug: str) -> Response:
        """One model; `runs/?model=` lists its runs."""
        inputs.read(inputs.NoQuery, request.query_params)
        return Response(ModelOutput(queries.get_model(viewer(request), slug)).data)


class Runs(Endpoint):
    """Runs, and new ones."""

    signed_in = frozenset({"POST"})
    scopes = {**_READ, **_WRITE}
    parser_classes: tuple[type[BaseParser], ...] = (JSONParser,)

    @extend_schema(
        operation_id="listRuns",
        summary="List runs",
        tags=["Runs"],
        parameters=[run_inputs.RunsQuery],
        responses=answers({200: NewestFirst().page_of(RunBrief)}, 403, 404, 422),
    )
    def get(self, request: Request) -> Response:
        """Published runs and those of own organisations, the newest first, by cursor."""
        wanted = inputs.read(run_inputs.RunsQuery, request.query_params)
        chosen = queries.with_counts(queries.visible_runs(viewer(request)))
        if "model" in wanted:
            chosen = chosen.filter(model__slug=wanted["model"])
        if "state" in wanted:
            chosen = chosen.filter(state=wanted["state"])
        pages = NewestFirst()
        page: Any = pages.paginate_queryset(chosen, request, self)
        return pages.get_paginated_response(RunBrief(page, many=True, context={"request": request}).data)

    @extend_schema(
        operation_id="createRun",
        summary="Create a run",
        tags=["Runs"],
        parameters=[_IDEMPOTENCY_KEY, _LOCATION],
        request=run_inputs.RunInput,
        responses=answers({201: RunDetail}, 400, 403, 404, 409, 411, 413, 415, 422),
    )
    def post(self, request: Request) -> Response:
        """An empty private run of one of the caller's organisations, and its model where it is new."""
        values = inputs.read(run_inputs.RunInput, request.data)
        wishes = actions.RunWishes(**values)
        run = actions.create_run(caller(request), wishes, idempotency_key=inputs.idempotency_key(request))
        body = run_body(request, run)
        return Response(body, status=201, headers={"Location": body["url"]})


class RunView(Endpoint):
    """One run."""

    scopes = _READ

    @extend_schema(
        operation_id="readRun",
        summary="Read a run",
        tags=["Runs"],
        parameters=[_RUN_ID],
        responses=answers({200: RunDetail}, 403, 404, 422),
    )
    def get(self, request: Request, run_id: uuid.UUID) -> Response:
        """A run with its counts and figures."""
        inputs.read(inputs.NoQuery, request.query_params)
        return Response(run_body(request, queries.get_run(viewer(request), run_id)))


class ProgressView(Endpoint):
    """A run step by step."""

    scopes = _READ

    @extend_schema(
        operation_id="readProgress",
        summary="Read an agent's progress",
        tags=["Runs"],
        parameters=[_RUN_ID],
        responses=answers({200: ProgressOutput(many=True)}, 403, 404, 422),
    )
    def get(self, request: Request, run_id: uuid.UUID) -> Response:
        """Problems, scores and cost that a run had reached by each step."""
        inputs.read(inputs.NoQuery, request.query_params)
        reached: Any = progress(queries.get_run(viewer(request), run_id))
        return Response(ProgressOutput(reached, many=True).data)


class Attempts(Endpoint):
    """Attempts of a run, and a new one."""

    signed_in = frozenset({"POST"})
    scopes = {**_READ, **_WRITE}
    parser_classes: tuple[type[BaseParser], ...] = (JSONParser,)

    @extend_schema(
        operation_id="listAttempts",
        summary="List a run's attempts",
        tags=["Runs"],
        parameters=[_RUN_ID, run_inputs.AttemptsQuery],
        responses=answers({200: SmallestFirst().page_of(AttemptOutput)}, 403, 404, 422),
    )
    def get(self, request: Request, run_id: uuid.UUID) -> Response:
        """Attempts in the order in which they were added, by cursor."""
        wanted = inputs.read(run_inputs.AttemptsQuery, request.query_params)
        run = queries.get_run(viewer(request), run_id)
        narrowed = {name: wanted[name] for name in ("problem", "verdict", "state", "sample") if name in wanted}
        pages = SmallestFirst()
        page: Any = pages.paginate_queryset(run.attempts.filter(**narrowed), request, self)
        return pages.get_paginated_response(AttemptOutput(page, many=True, context={"request": request}).data)

    @extend_schema(
        operation_id="addAttempt",
        summary="Add an attempt",
        tags=["Runs"],
        parameters=[_RUN_ID],
        request=run_inputs.AttemptInput,
        responses=answers({201: AttemptOutput}, 400, 403, 404, 409, 411, 413, 415, 422),
    )
    def post(self, request: Request, run_id: uuid.UUID) -> Response:
        """Store one attempt and queue its judgement; the same key with the same source gives the same attempt."""
        run = queries.get_run(viewer(request), run_id)
        inputs.read(run_inputs.AttemptInput, request.data)
        # Read twice: the serializer names every wrong field at once, the upload's own rules are the same for bulk.
        attempt = uploads.attempt_from(request.data)
        added = actions.add_attempt(run, attempt, by=caller(request)).attempt
        assert added is not None
        return Response(AttemptOutput(added, context={"request": request}).data, status=201)


class BulkAttempts(Endpoint):
    """Many attempts in one request."""

    signed_in = frozenset({"POST"})
    scopes = _WRITE
    parser_classes: tuple[type[BaseParser], ...] = (LinesStream, ArchiveStream, BytesStream)

    @extend_schema(
        operation_id="addAttempts",
        summary="Add many attempts",
        tags=["Runs"],
        parameters=[_RUN_ID, _RETRY_AFTER],
        request={"application/x-ndjson": _BYTES, "application/zip": _BYTES, "application/octet-stream": _BYTES},
        responses=answers({200: BulkOutput}, 400, 403, 404, 409, 411, 413, 415, 422),
    )
    def post(self, request: Request, run_id: uuid.UUID) -> Response:
        """JSON Lines with one attempt each, or a zip of SLUG/SAMPLE/solution.py; stored as it is read."""
        run = queries.get_run(viewer(request), run_id)
        queries.require_change(caller(request), run)
        bulk = _added(run, request)
        headers = {} if bulk.retry_after_s is None else {"Retry-After": str(bulk.retry_after_s)}
        return Response(BulkOutput(bulk).data, headers=headers)


def _added(run: Run, request: Request) -> actions.BulkResult:
    body = request.data
    if not hasattr(body, "read"):  # an empty body is not parsed at all
        return actions.add_lines(run, (), by=caller(request))
    stream = cast(IO[bytes], body)
    kind = (request.content_type or "").partition(";")[0].strip().lower()
    start = b"" if kind == LinesStream.media_type else stream.read(len(uploads.ARCHIVE_START))
    if kind == LinesStream.media_type or (kind == BytesStream.media_type and start != uploads.ARCHIVE_START):
        return actions.add_lines(run, uploads.read_lines(stream, start=start), by=caller(request))
    with TemporaryFile() as kept:  # an archive's table of contents is at its end
        kept.write(start)
        while chunk := stream.read(1 << 20):
            kept.write(chunk)
        return actions.add_lines(run, uploads.read_archive(kept), by=caller(request))


class TrajectoryView(Endpoint):
    """What an agent did."""

    scopes = _READ

    @extend_schema(
        operation_id="readTrajectory",
        summary="Read an attempt's trajectory",
        tags=["Runs"],
        parameters=[_RUN_ID, _ATTEMPT_ID],
        responses=answers({200: TrajectoryOutput}, 403, 404, 422),
    )
    def get(self, request: Request, run_id: uuid.UUID, attempt_id: int) -> Response:
        """The trajectory as it was uploaded, without what looked like a credential."""
        inputs.read(inputs.NoQuery, request.query_params)
        run = queries.get_run(viewer(request), run_id)
        attempt = queries.get_attempt(run, attempt_id)
        if not attempt.has_trajectory or not queries.shows_sources(viewer(request), run):
            raise Refusal(
                field="attempt_id",
                value=str(attempt_id),
                message="The attempt has no trajectory, or the run keeps its sources private.",
                remedy="Look for an attempt whose has_trajectory is true in a run with public sources.",
                status=404,
            )
        return Response(TrajectoryOutput({"key": attempt.key, "text": attempt.trajectory.text}).data)


class Events(Endpoint):
    """The results feed."""

    scopes = _READ

    @extend_schema(
        operation_id="readEvents",
        summary="Follow a run",
        tags=["Runs"],
        parameters=[_RUN_ID, run_inputs.EventsQuery],
        responses=answers({200: FeedOutput}, 403, 404, 422),
    )
    def get(self, request: Request, run_id: uuid.UUID) -> Response:
        """What has happened after a cursor, oldest first; `wait` holds the call open until there is something."""
        wanted = inputs.read(run_inputs.EventsQuery, request.query_params)
        run = queries.get_run(viewer(request), run_id)
        events = _events(run, after=wanted["after"], limit=wanted["limit"], wait_s=wanted["wait"])
        total, pending = queries.counts(run)
        feed = {
            "events": events,
            "next": events[-1].pk if events else wanted["after"],
            "pending": pending,
            "total": total,
            "poll_after_s": 2 if pending else None,
        }
        return Response(FeedOutput(feed).data)


def _events(run: Run, *, after: int, limit: int, wait_s: int) -> list[RunEvent]:
    def read() -> list[RunEvent]:
        return list(run.events.filter(pk__gt=after).select_related("attempt")[:limit])

    found = read()
    if found or not wait_s or not queries.counts(run)[1] or not _holding.acquire(blocking=False):
        return found
    try:
        give_up_at = time.monotonic() + wait_s
        while not found and time.monotonic() < give_up_at:
            connection.close_if_unusable_or_obsolete()
            time.sleep(_LOOK_EVERY_S)
            found = read()
        return found
    finally:
        _holding.release()


class Publish(Endpoint):
    """Publishing."""

    signed_in = frozenset({"POST"})
    scopes = _WRITE
    parser_classes: tuple[type[BaseParser], ...] = (JSONParser,)

    @extend_schema(
        operation_id="publishRun",
        summary="Publish a run",
        tags=["Runs"],
        parameters=[_RUN_ID],
        request=run_inputs.PublishInput,
        responses=answers({200: RunDetail}, 400, 403, 404, 409, 411, 413, 415, 422),
    )
    def post(self, request: Request, run_id: uuid.UUID) -> Response:
        """Let everybody see a run that is judged in full. Nothing can be added afterwards."""
        run = queries.get_run(viewer(request), run_id)
        values = inputs.read(run_inputs.PublishInput, request.data)
        actions.publish_run(run, by=caller(request), sources=values["sources"])
        return Response(run_body(request, run))


class ImportTree(Endpoint):
    """Importing."""

    signed_in = frozenset({"POST"})
    scopes = _WRITE
    parser_classes: tuple[type[BaseParser], ...] = (ArchiveForm,)

    @extend_schema(
        operation_id="importRun",
        summary="Import a tree of solutions",
        tags=["Runs"],
        parameters=[_LOCATION],
        request={"multipart/form-data": run_inputs.TreeUpload},
        responses=answers({201: ImportOutput}, 400, 403, 404, 409, 411, 413, 415, 422),
    )
    def post(self, request: Request) -> Response:
        """A zip of solutions_<backend>_<precision>_<hardware>_<provider>_<model> becomes a run."""
        values = inputs.read(run_inputs.TreeUpload, request.data)
        upload = values.pop("file")
        imported = actions.import_tree(caller(request), upload, name=upload.name, wishes=values)
        body = run_body(request, imported.run)
        shown = ImportOutput(imported, context={"run": body}).data
        return Response(shown, status=201, headers={"Location": body["url"]})


class ModelBoard(Endpoint):
    """The model board."""

    @extend_schema(
        operation_id="readModelLeaderboard",
        summary="Read the model leaderboard",
        tags=["Runs"],
        parameters=[run_inputs.ModelBoardQuery],
        responses=answers({200: ModelBoardOutput}, 422),
    )
    def get(self, request: Request) -> Response:
        """The published runs on a profile by correct@1, with fast_p at the p that is asked for."""
        wanted = inputs.read(run_inputs.ModelBoardQuery, request.query_params)
        if wanted["profile"] not in profiles.profiles():
            raise Refusal(
                field="profile",
                value=wanted["profile"],
                message="There is no such profile.",
                remedy=f"Known are {', '.join(profiles.profiles())}.",
            )
        rows = queries.model_board(wanted["profile"], p=wanted["p"])
        return Response(ModelBoardOutput({**wanted, "rows": rows}).data)
