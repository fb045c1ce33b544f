"""Public data as files, the attempts of a run, and one evaluation with what judges it again."""

import uuid
from typing import Any

from django.http import FileResponse, Http404, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request

from portal.accounts.models import ApiToken, TokenScope
from portal.api import inputs, run_inputs
from portal.api.endpoint import Endpoint, viewer
from portal.api.faults import ScopeMissing
from portal.api.schema import answers
from portal.runs import exports, queries, tables
from portal.submissions import queries as submissions
from portal.submissions.models import Visibility

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


_TABLE_FILES = _files(*(media_type.partition(";")[0] for media_type in exports.MEDIA_TYPES.values()))


def table_response(table: tables.Table, *, format_name: str) -> StreamingHttpResponse:
    """A table as a file that is sent while it is written."""
    response = StreamingHttpResponse(
        exports.written(table, format=format_name), content_type=exports.MEDIA_TYPES[format_name]
    )
    response["Content-Disposition"] = f'attachment; filename="{table.name}.{format_name}"'
    return response


class RunExport(Endpoint):
    """A run as a file."""

    scopes = _READ_RUNS

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
        return table_response(tables.attempts_of(run), format_name=wanted["format"])


class TableExport(Endpoint):
    """A table of public data as a file."""

    @extend_schema(
        operation_id="exportTable",
        summary="Export a table of public data",
        tags=["Exports"],
        parameters=[_TABLE, run_inputs.FormatQuery],
        responses={**_TABLE_FILES, **answers({}, 404, 422)},
    )
    def get(self, request: Request, table: str) -> HttpResponseBase:
        """Leaderboards, models, runs, attempts or evaluations, as far as they are public."""
        wanted = inputs.read(run_inputs.FormatQuery, request.query_params)
        return table_response(tables.get_table(table), format_name=wanted["format"])


class DatasetExport(Endpoint):
    """All public data as one archive."""

    @extend_schema(
        operation_id="exportDataset",
        summary="Export all public data",
        tags=["Exports"],
        responses={**_files(_ZIP), **answers({}, 422)},
    )
    def get(self, request: Request) -> HttpResponseBase:
        """Every table as Parquet and JSON Lines, the problems, a schema and a data card; at most an hour old."""
        inputs.read(inputs.NoQuery, request.query_params)
        path = exports.dataset(now=timezone.now())
        return FileResponse(path.open("rb"), as_attachment=True, filename="pkb-dataset.zip", content_type=_ZIP)


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
        response = HttpResponse(exports.bundle(evaluation), content_type=_ZIP)
        response["Content-Disposition"] = f'attachment; filename="evaluation-{evaluation_id}.zip"'
        return response
