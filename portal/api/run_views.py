"""Models and their runs: create, fill, follow, publish, read."""

import time
import uuid
from collections.abc import Sequence
from tempfile import TemporaryFile
from threading import BoundedSemaphore
from typing import IO, Any, cast

from django.db import connection
from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.identity import signed_in
from portal.accounts.models import TokenScope
from portal.api import inputs, run_inputs, schema
from portal.api.base import NewestFirst, Resource, SmallestFirst, operation
from portal.api.parsers import ArchiveForm, ArchiveStream, LinesStream
from portal.api.run_outputs import (
    AttemptOutput,
    BulkResultOutput,
    EventPageOutput,
    ImportOutput,
    ImportPreviewOutput,
    ModelBoardOutput,
    ModelOutput,
    ProgressOutput,
    PromptOutput,
    RunBrief,
    RunDetail,
    TrajectoryOutput,
)
from portal.catalog.queries import get_profile
from portal.runs import actions, queries, uploads
from portal.runs.models import Attempt, LanguageModel, Run, RunEvent, Trajectory
from portal.runs.page_data import Progress, progress
from portal.runs.prompts import Prompt, prompt_for

_RETRY_AFTER = OpenApiParameter(
    "Retry-After", int, "header", response=[200], description="Seconds after which lines over quota may be sent again."
)
_IDEMPOTENCY_KEY = schema.idempotency_key(
    "A repeated call with the same key returns the same run. The same key with anything "
    "else but another provider or other notes is refused with 409, which names what differs."
)
_BYTES = {"type": "string", "format": "binary"}

_LOOK_EVERY_S = 0.5
_HELD_CALLS = 3
# Held calls keep a thread of the web server each; the few that remain must go on answering.
_holding = BoundedSemaphore(_HELD_CALLS)


class _Runs(Resource):
    """What concerns models and runs: what is published is open."""

    tag = "Runs"
    read_scope = TokenScope.RUNS_READ
    write_scope = TokenScope.RUNS_WRITE


def _counted(request: Request, run: Run) -> Run:
    return queries.with_counts(queries.visible_runs(request.user).filter(pk=run.pk)).get()


class Prompts(Resource):
    tag = "Problems"

    @operation("readPrompt", "Read a problem's task prompt", PromptOutput, query=run_inputs.PromptQuery)
    def retrieve(self, _request: Request, slug: str) -> Prompt:
        """The prompt for a model: reference, signature, sizes, hardware, rules, a worked example of another problem."""
        return prompt_for(slug, **self.query)


class Models(_Runs):
    @operation("listModels", "List the models", ModelOutput, many=True)
    def list(self, request: Request) -> QuerySet[LanguageModel]:
        """The models with a published run, and those of own organisations."""
        return queries.visible_models(request.user)

    @operation("readModel", "Read a model", ModelOutput)
    def retrieve(self, request: Request, slug: str) -> LanguageModel:
        """One model; `runs/?model=` lists its runs."""
        return queries.get_model(request.user, slug)


class Runs(_Runs):
    pagination_class = NewestFirst

    @operation("listRuns", "List runs", RunBrief, many=True, query=run_inputs.RunsQuery)
    def list(self, request: Request) -> QuerySet[Run]:
        """Published runs and those of own organisations, the newest first, by cursor."""
        paths = {"model": "model__slug", "state": "state"}
        narrowed = {path: self.query[name] for name, path in paths.items() if name in self.query}
        return queries.with_counts(queries.visible_runs(request.user)).filter(**narrowed)

    @operation(
        "createRun",
        "Create a run",
        RunDetail,
        status=201,
        body=run_inputs.RunInput,
        headers=(_IDEMPOTENCY_KEY, schema.LOCATION),
        refuses=(404, 409),
    )
    def create(self, request: Request) -> Response:
        """An empty private run of one of the caller's organisations, and its model where it is new."""
        declaration = actions.RunDeclaration(**self.body())
        run = actions.create_run(signed_in(request), declaration, idempotency_key=inputs.idempotency_key(request))
        body = RunDetail(_counted(request, run), context=self.get_serializer_context()).data
        return Response(body, status=201, headers={"Location": body["url"]})

    @operation("readRun", "Read a run", RunDetail)
    def retrieve(self, request: Request, run_id: uuid.UUID) -> Run:
        """A run with its counts and figures."""
        return _counted(request, queries.get_run(request.user, run_id))

    @operation("readProgress", "Read an agent's progress", ProgressOutput, many=True)
    def progress(self, request: Request, run_id: uuid.UUID) -> Sequence[Progress]:
        """Problems, scores and cost that a run had reached by each step."""
        return progress(queries.get_run(request.user, run_id))

    @operation("readEvents", "Follow a run", EventPageOutput, query=run_inputs.EventsQuery)
    def events(self, request: Request, run_id: uuid.UUID) -> dict[str, Any]:
        """What has happened after a cursor, oldest first; `wait` holds the call open until there is something."""
        run, after = queries.get_run(request.user, run_id), self.query["after"]
        events = _events(run, after=after, limit=self.query["limit"], wait_s=self.query["wait"])
        total, pending = queries.counts(run)
        return {
            "events": events,
            "next": events[-1].pk if events else after,
            "pending": pending,
            "total": total,
            "poll_after_s": 2 if pending else None,
        }

    @operation("publishRun", "Publish a run", RunDetail, body=run_inputs.PublishInput, refuses=(409,))
    def publish(self, request: Request, run_id: uuid.UUID) -> Run:
        """Let everybody see a run that is judged in full. Nothing can be added afterwards."""
        run = queries.get_run(request.user, run_id)
        actions.publish_run(run, by=signed_in(request), sources=self.body()["sources"])
        return _counted(request, run)


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


class Attempts(_Runs):
    pagination_class = SmallestFirst

    @operation("listAttempts", "List a run's attempts", AttemptOutput, many=True, query=run_inputs.AttemptsQuery)
    def list(self, request: Request, run_id: uuid.UUID) -> QuerySet[Attempt]:
        """Attempts in the order in which they were added, by cursor."""
        run, names = queries.get_run(request.user, run_id), ("problem", "verdict", "state", "sample")
        narrowed = {name: self.query[name] for name in names if name in self.query}
        return run.attempts.filter(**narrowed).select_related("evaluation")

    @operation("addAttempt", "Add an attempt", AttemptOutput, status=201, body=run_inputs.AttemptInput, refuses=(409,))
    def create(self, request: Request, run_id: uuid.UUID) -> Attempt:
        """Store one attempt and queue its evaluation; the same key with the same source returns the same attempt."""
        run = queries.get_run(request.user, run_id)
        self.body()
        # Read twice: the serializer names every wrong field at once, the upload's own rules are the same for bulk.
        added = actions.add_attempt(run, uploads.attempt_from(request.data), by=signed_in(request)).attempt
        assert added is not None
        return added

    @operation("readTrajectory", "Read an attempt's trajectory", TrajectoryOutput)
    def trajectory(self, request: Request, run_id: uuid.UUID, attempt_id: int) -> Trajectory:
        """The trajectory as it was uploaded, without what looked like a credential."""
        run = queries.get_run(request.user, run_id)
        return queries.get_attempt_with_trajectory(run, attempt_id, request.user).trajectory


class BulkAttempts(_Runs):
    parser_classes = (LinesStream, ArchiveStream)

    @operation(
        "addAttempts",
        "Add many attempts",
        BulkResultOutput,
        body={"application/x-ndjson": _BYTES, "application/zip": _BYTES},
        headers=(_RETRY_AFTER,),
        refuses=(409,),
    )
    def create(self, request: Request, run_id: uuid.UUID) -> Response:
        """JSON Lines with one attempt each, or a zip of SLUG/SAMPLE/solution.py; stored as it is read."""
        run = queries.get_run(request.user, run_id)
        queries.require_change(signed_in(request), run)
        bulk = _added(run, request)
        headers = {} if bulk.retry_after_s is None else {"Retry-After": str(bulk.retry_after_s)}
        return Response(BulkResultOutput(bulk).data, headers=headers)


def _added(run: Run, request: Request) -> actions.BulkResult:
    body = request.data
    if not hasattr(body, "read"):  # an empty body is not parsed at all
        return actions.add_lines(run, (), by=signed_in(request))
    stream = cast(IO[bytes], body)
    if (request.content_type or "").partition(";")[0].strip().lower() == LinesStream.media_type:
        return actions.add_lines(run, uploads.read_lines(stream), by=signed_in(request))
    with TemporaryFile() as archive:  # an archive's table of contents is at its end
        while chunk := stream.read(1 << 20):
            archive.write(chunk)
        return actions.add_lines(run, uploads.read_archive(archive), by=signed_in(request))


class Trees(_Runs):
    """Trees of solutions that become runs, and what importing them would do."""

    parser_classes = (ArchiveForm,)

    @operation(
        "importRun",
        "Import a tree of solutions",
        ImportOutput,
        status=201,
        body={"multipart/form-data": run_inputs.TreeUpload},
        headers=(schema.LOCATION,),
        refuses=(404, 409),
    )
    def create(self, request: Request) -> Response:
        """A zip of solutions_<backend>_<precision>_<gpu>_<ranks>_<vendor>_<model> becomes a run."""
        imported = actions.import_tree(signed_in(request), **_tree(self.body()))
        run = RunDetail(_counted(request, imported["run"]), context=self.get_serializer_context()).data
        shown = ImportOutput(imported, context={"run": run}).data
        return Response(shown, status=201, headers={"Location": run["url"]})

    @operation(
        "previewImport", "Preview an import", ImportPreviewOutput, body={"multipart/form-data": run_inputs.TreeUpload}
    )
    def preview(self, _request: Request) -> actions.ImportPreview:
        """The same fields as an import; nothing is stored."""
        return actions.read_tree(**_tree(self.body()))


def _tree(values: dict[str, Any]) -> dict[str, Any]:
    upload = values.pop("file")
    choices = {name: values.pop(name, "") for name in ("problems", "program_backend")}
    return {"stream": upload, "name": upload.name, "declaration": values, **choices}


class ModelBoard(Resource):
    tag = "Runs"

    @operation("readModelLeaderboard", "Read the model leaderboard", ModelBoardOutput, query=run_inputs.ModelBoardQuery)
    def retrieve(self, _request: Request) -> dict[str, Any]:
        """The published runs on a profile by correct@1, with fast_p at the p that is asked for."""
        profile = get_profile(self.query["profile"]).name
        by_point = self.query["faster"] == "point"
        return {**self.query, "rows": queries.model_board(profile, p=self.query["p"], by_point=by_point)}
