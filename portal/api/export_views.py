"""Public data as files, the attempts of a run, and one evaluation with what judges it again."""

import uuid
from collections.abc import Iterator
from threading import BoundedSemaphore
from typing import IO, Any

from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import http_date
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.throttling import AnonRateThrottle

from portal.accounts.models import ApiToken, TokenScope
from portal.api import inputs, run_inputs
from portal.api.endpoint import Endpoint, viewer
from portal.api.faults import ScopeMissing
from portal.api.schema import answers
from portal.exports import bundles, files, tables
from portal.refusals import Refusal
from portal.runs import queries
from portal.submissions import queries as submissions
from portal.submissions.models import Visibility
from portal.tabular.formats import MEDIA_TYPES, written

_RUN_ID = OpenApiParameter("run_id", OpenApiTypes.UUID, "path", description="The `id` of a run.")
_TABLE = OpenApiParameter("table", str, "path", enum=list(tables.TABLES), description="Which table.")
_SUBMISSION_ID = OpenApiParameter("submission_id", OpenApiTypes.UUID, "path", description="The `id` of a submission.")
_EVALUATION_ID = OpenApiParameter(
    "evaluation_id", OpenApiTypes.UUID, "path", description="The `id` of one of its evaluations."
)
_ZIP = "application/zip"
_READ_RUNS = {"GET": TokenScope.RUNS_READ, "HEAD": TokenScope.RUNS_READ}


def _files(*media_types: str) -> dict[Any, Any]:
    binary = {"type": "string", "format": "binary"}
    return {(200, media_type): OpenApiResponse(binary, description="The file.") for media_type in media_types}


_TABLE_FILES = _files(*(media_type.partition(";")[0] for media_type in MEDIA_TYPES.values()))


_CHUNK = 256 * 1024
DOWNLOADS = 2
# A download keeps a thread of the web server for as long as its reader takes; the others must go on answering.
_downloading = BoundedSemaphore(DOWNLOADS)


class ExportRate(AnonRateThrottle):
    """How often somebody without a token may fetch a whole table."""

    scope = "exports"


_THROTTLES = (AnonRateThrottle, ExportRate)


class _Download:
    """Pieces of a file, and the place that its sending takes up: given back when the response is closed."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        if not _downloading.acquire(blocking=False):
            raise Refusal(
                field="",
                value="",
                message=f"{DOWNLOADS} other downloads take all the room that there is at the moment.",
                remedy="Ask again in a few seconds.",
                status=429,
                retry_after_s=5,
            )
        self._pieces = pieces
        self._is_open = True

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._pieces)

    def close(self) -> None:
        """Give the place back; Django calls it when the response has been sent or its reader has gone."""
        if self._is_open:
            self._is_open = False
            _downloading.release()


def _sent(pieces: Iterator[bytes], *, name: str, media_type: str) -> StreamingHttpResponse:
    response = StreamingHttpResponse(_Download(pieces), content_type=media_type)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


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


class RunExport(Endpoint):
    """A run as a file."""

    scopes = _READ_RUNS
    throttle_classes = _THROTTLES

    @extend_schema(
        operation_id="exportRun",
        summary="Export a run's attempts",
        tags=["Exports"],
        parameters=[_RUN_ID, run_inputs.FormatQuery],
        responses={**_TABLE_FILES, **answers({}, 403, 404, 422)},
    )
    def get(self, request: Request, run_id: uuid.UUID) -> HttpResponseBase:
        """One row per attempt, by problem, sample and step."""
        wanted = inputs.read(run_inputs.FormatQuery, request.query_params)
        run = queries.get_run(viewer(request), run_id)
        table, format_name = tables.attempts_of(run), wanted["format"]
        pieces = written(table, format=format_name)
        return _sent(pieces, name=f"{table.name}.{format_name}", media_type=MEDIA_TYPES[format_name])


class TableExport(Endpoint):
    """A table of public data as a file."""

    throttle_classes = _THROTTLES

    @extend_schema(
        operation_id="exportTable",
        summary="Export a table of public data",
        tags=["Exports"],
        parameters=[_TABLE, run_inputs.FormatQuery],
        responses={**_TABLE_FILES, **answers({}, 404, 422, 503)},
    )
    def get(self, request: Request, table: str) -> HttpResponseBase:
        """Leaderboards, models, runs, attempts or evaluations, as far as they are public; about 10 minutes old."""
        format_name = inputs.read(run_inputs.FormatQuery, request.query_params)["format"]
        name = f"{tables.get_table(table).name}.{format_name}"
        return _kept_file(name, media_type=MEDIA_TYPES[format_name])


class DatasetExport(Endpoint):
    """All public data as one archive."""

    throttle_classes = _THROTTLES

    @extend_schema(
        operation_id="exportDataset",
        summary="Export all public data",
        tags=["Exports"],
        responses={**_files(_ZIP), **answers({}, 422, 503)},
    )
    def get(self, request: Request) -> HttpResponseBase:
        """Every table as Parquet and JSON Lines, the problems, a schema and a data card; about 10 minutes old."""
        inputs.read(inputs.NoQuery, request.query_params)
        return _kept_file(files.DATASET, media_type=_ZIP)


class EvaluationBundle(Endpoint):
    """One evaluation as an archive."""

    scopes = {"GET": TokenScope.READ, "HEAD": TokenScope.READ}
    also_enough = frozenset({TokenScope.RUNS_READ.value})

    @extend_schema(
        operation_id="exportEvaluation",
        summary="Export an evaluation with what judges it again",
        tags=["Exports"],
        parameters=[_SUBMISSION_ID, _EVALUATION_ID],
        responses={**_files(_ZIP), **answers({}, 403, 404, 422)},
    )
    def get(self, request: Request, submission_id: uuid.UUID, evaluation_id: uuid.UUID) -> HttpResponseBase:
        """Source, request, problem, report, environment, and the command, in one zip."""
        inputs.read(inputs.NoQuery, request.query_params)
        evaluation = submissions.get_evaluation(viewer(request), evaluation_id)
        submission = evaluation.submission
        if evaluation.submission_id != submission_id or not submissions.may_read_source(viewer(request), submission):
            raise Http404
        is_open = submission.is_attempt or submission.visibility == Visibility.PUBLIC
        if isinstance(request.auth, ApiToken) and TokenScope.READ not in request.auth.scopes and not is_open:
            raise ScopeMissing(TokenScope.READ.value)
        response = HttpResponse(bundles.bundle(evaluation), content_type=_ZIP)
        response["Content-Disposition"] = f'attachment; filename="evaluation-{evaluation_id}.zip"'
        return response
