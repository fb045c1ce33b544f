"""Submitting, following, reading, cancelling and judging again."""

import hashlib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery
from django.http import Http404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from portal.accounts.models import ApiToken, TokenScope
from portal.api import inputs
from portal.api.endpoint import Endpoint, caller, viewer
from portal.api.faults import ScopeMissing
from portal.api.pagination import NewestFirst
from portal.api.parsers import JSONParser, MultiPartParser
from portal.api.schema import answers
from portal.api.submission_outputs import EvaluationDetail, SourceOutput, SubmissionBrief, SubmissionDetail
from portal.refusals import Refusal
from portal.submissions import actions, queries
from portal.submissions.models import Evaluation, Submission, Visibility

_READ = {"GET": TokenScope.READ, "HEAD": TokenScope.READ}
_RUNS = frozenset({TokenScope.RUNS_READ.value})
_LOCATION = OpenApiParameter(
    "Location", OpenApiTypes.URI, "header", response=[201], description="The address of what was created."
)
_ETAG = OpenApiParameter("ETag", str, "header", response=[200, 304], description="Send it back as If-None-Match.")
_IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match", str, "header", description="The ETag of an earlier answer: 304 without a body if nothing changed."
)
_SUBMISSION_ID = OpenApiParameter("submission_id", OpenApiTypes.UUID, "path", description="The `id` of a submission.")
_EVALUATION_ID = OpenApiParameter(
    "evaluation_id", OpenApiTypes.UUID, "path", description="The `id` of one of its evaluations."
)
_IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 100, "pattern": "^[ -~]+$"},
    "header",
    description="Repeating a call with the same key gives the same submission instead of another. The same key with "
    "another problem, backend, profile, mode, visibility or source is refused with 409, which names what differs.",
)
_EXAMPLE = OpenApiExample(
    "One file",
    value={
        "problem": "allreduce",
        "profile": "cpux2",
        "backend": "pytorch",
        "mode": "ranked",
        "source": "import torch.distributed as dist\n\n\ndef solution(tensor):\n    out = tensor.clone()\n"
        "    dist.all_reduce(out)\n    return out\n",
    },
    request_only=True,
    media_type="application/json",
)


@contextmanager
def _input_names(*, file: str) -> Iterator[None]:
    """Let refusals of the actions, which speak of a page's form, name the input that came through the API."""
    names = {"file": file, "idempotency_key": "Idempotency-Key"}
    try:
        yield
    except Refusal as refusal:
        refusal.field = names.get(refusal.field, refusal.field)
        raise


class Submissions(Endpoint):
    """Own submissions, and new ones."""

    signed_in = frozenset({"GET", "HEAD", "POST"})
    scopes = {**_READ, "POST": TokenScope.SUBMIT}
    parser_classes = (JSONParser, MultiPartParser)

    @extend_schema(
        operation_id="listSubmissions",
        summary="List own submissions",
        tags=["Submissions"],
        parameters=[inputs.SubmissionsQuery],
        responses=answers({200: NewestFirst().page_of(SubmissionBrief)}, 403, 404, 422),
    )
    def get(self, request: Request) -> Response:
        """Own submissions, the newest first, by cursor: follow `next` until it is null."""
        wanted = inputs.read(inputs.SubmissionsQuery, request.query_params)
        pages = NewestFirst()
        page: Any = pages.paginate_queryset(_selected(caller(request), wanted), request, self)
        shown = SubmissionBrief(page, many=True, context={"request": request})
        return pages.get_paginated_response(shown.data)

    @extend_schema(
        operation_id="createSubmission",
        summary="Submit",
        tags=["Submissions"],
        parameters=[_IDEMPOTENCY_KEY, _LOCATION],
        request={"application/json": inputs.SubmissionInput, "multipart/form-data": inputs.SubmissionUpload},
        examples=[_EXAMPLE],
        responses=answers({201: SubmissionDetail}, 400, 403, 404, 409, 411, 413, 415, 422),
    )
    def post(self, request: Request) -> Response:
        """Store a source and queue its first evaluation: JSON with `source` or `files`, or a form with `file`."""
        is_form = (request.content_type or "").startswith("multipart/")
        values = inputs.read(inputs.SubmissionUpload if is_form else inputs.SubmissionInput, request.data)
        key = inputs.idempotency_key(request)
        with _input_names(file=next(name for name in ("source", "files", "file") if name in values)):
            submission = actions.create_submission(
                caller(request),
                files=inputs.bundle_of(values),
                idempotency_key=key,
                **{name: values[name] for name in ("problem", "backend", "profile", "mode", "visibility", "note")},
            )
        body = _detail(request, submission)
        return Response(body, status=201, headers={"Location": body["url"]})


def _selected(user: Any, wanted: dict[str, Any]) -> QuerySet[Submission]:
    """The user's submissions that a query asks for."""
    chosen = queries.own_submissions(user, problem=wanted.get("problem")).select_related("author")
    newest = Evaluation.objects.filter(submission=OuterRef("pk")).order_by("-queued_at")
    for name in ("state", "verdict"):
        if name in wanted:
            chosen = chosen.alias(**{f"newest_{name}": Subquery(newest.values(name)[:1])})
            chosen = chosen.filter(**{f"newest_{name}": wanted[name]})
    return chosen


def _detail(request: Request, submission: Submission, live: queries.LiveView | None = None) -> dict[str, Any]:
    live = live or queries.live_view(queries.load_evaluations(submission))
    return dict(SubmissionDetail(submission, context={"request": request, "live": live}).data)


def _tag(submission: Submission, live: queries.LiveView) -> str:
    """The entity tag of a submission or evaluation as it now is; an earlier evaluation may still be under way."""
    others = (f"{other.pk} {other.state} {other.verdict}" for other in submission.evaluations.all())
    parts = (submission.visibility, submission.note, str(live.evaluation.pk), live.version, *others)
    return f'"{hashlib.sha256("|".join(parts).encode()).hexdigest()[:32]}"'


def _conditional(request: Request, tag: str) -> Response | None:
    """304 where the caller's copy is still right."""
    held = [part.strip().removeprefix("W/") for part in request.headers.get("If-None-Match", "").split(",")]
    return Response(status=304, headers=_cache_headers(tag)) if tag in held or "*" in held else None


def _cache_headers(tag: str) -> dict[str, str]:
    return {"ETag": tag, "Cache-Control": "private, no-cache"}


def _readable(request: Request, submission: Submission) -> Submission:
    """The submission, where the token is for it: `runs:read` alone opens public ones and attempts of runs."""
    is_open = submission.is_attempt or submission.visibility == Visibility.PUBLIC
    if isinstance(request.auth, ApiToken) and TokenScope.READ not in request.auth.scopes and not is_open:
        raise ScopeMissing(TokenScope.READ.value)
    return submission


class SubmissionView(Endpoint):
    """One submission."""

    scopes = _READ
    also_enough = _RUNS

    @extend_schema(
        operation_id="readSubmission",
        summary="Read a submission",
        tags=["Submissions"],
        parameters=[_SUBMISSION_ID, _IF_NONE_MATCH, _ETAG],
        responses=answers({200: SubmissionDetail, 304: OpenApiResponse(description="Nothing changed.")}, 403, 404, 422),
    )
    def get(self, request: Request, submission_id: uuid.UUID) -> Response:
        """A submission with the stage, place or report of its newest evaluation. Poll it with If-None-Match."""
        inputs.read(inputs.NoQuery, request.query_params)
        submission = _readable(request, queries.get_submission(viewer(request), submission_id))
        live = queries.live_view(queries.load_evaluations(submission))
        tag = _tag(submission, live)
        unchanged = _conditional(request, tag)
        return unchanged or Response(_detail(request, submission, live), headers=_cache_headers(tag))


class SubmissionSource(Endpoint):
    """The files of a submission."""

    scopes = _READ
    also_enough = _RUNS

    @extend_schema(
        operation_id="readSource",
        summary="Read a submission's source",
        tags=["Submissions"],
        parameters=[_SUBMISSION_ID],
        responses=answers({200: SourceOutput}, 403, 404, 422),
    )
    def get(self, request: Request, submission_id: uuid.UUID) -> Response:
        """The files as they are judged."""
        inputs.read(inputs.NoQuery, request.query_params)
        submission = _readable(request, queries.get_submission(viewer(request), submission_id))
        files = queries.readable_source(viewer(request), submission)
        if files is None:
            raise Http404
        return Response(SourceOutput(files).data)


class Cancel(Endpoint):
    """Cancelling."""

    signed_in = frozenset({"POST"})
    scopes = {"POST": TokenScope.SUBMIT}

    @extend_schema(
        operation_id="cancelSubmission",
        summary="Cancel a submission's newest evaluation",
        tags=["Submissions"],
        parameters=[_SUBMISSION_ID],
        request=None,
        responses=answers({200: SubmissionDetail}, 403, 404, 409),
    )
    def post(self, request: Request, submission_id: uuid.UUID) -> Response:
        """End the newest evaluation before it has ended by itself; the node that works on it stops."""
        user = caller(request)
        submission = queries.get_submission(user, submission_id)
        actions.cancel_evaluation(queries.load_evaluations(submission), by=user)
        return Response(_detail(request, submission))


class Evaluations(Endpoint):
    """Judging again."""

    signed_in = frozenset({"POST"})
    scopes = {"POST": TokenScope.SUBMIT}
    parser_classes: tuple[type[BaseParser], ...] = (JSONParser,)

    @extend_schema(
        operation_id="createEvaluation",
        summary="Judge a submission again",
        tags=["Submissions"],
        parameters=[_SUBMISSION_ID, _LOCATION],
        request=inputs.EvaluationInput,
        responses=answers({201: EvaluationDetail}, 400, 403, 404, 409, 411, 413, 415, 422),
    )
    def post(self, request: Request, submission_id: uuid.UUID) -> Response:
        """Queue one more evaluation of an own submission, on the same or another profile. None is overwritten."""
        user = caller(request)
        submission = queries.get_submission(user, submission_id)
        if not queries.may_change(user, submission):
            raise _someone_elses(submission)
        values = inputs.read(inputs.EvaluationInput, request.data)
        # The only refusal that names the source here says that this profile already has it in the queue.
        with _input_names(file="profile"):
            evaluation = actions.queue_evaluation(submission, profile=values["profile"], mode=values["mode"])
        address = reverse("api:evaluation", args=[submission.pk, evaluation.pk], request=request)
        context = {"request": request, "live": queries.live_view(evaluation)}
        return Response(EvaluationDetail(evaluation, context=context).data, status=201, headers={"Location": address})


def _someone_elses(submission: Submission) -> Refusal:
    return Refusal(
        field="submission",
        value=str(submission.pk),
        message="This submission belongs to another author.",
        remedy="Submit the source yourself to have it judged.",
        status=403,
    )


class EvaluationView(Endpoint):
    """One evaluation, an earlier one too."""

    scopes = _READ
    also_enough = _RUNS

    @extend_schema(
        operation_id="readEvaluation",
        summary="Read an evaluation",
        tags=["Submissions"],
        parameters=[_SUBMISSION_ID, _EVALUATION_ID, _IF_NONE_MATCH, _ETAG],
        responses=answers({200: EvaluationDetail, 304: OpenApiResponse(description="Nothing changed.")}, 403, 404, 422),
    )
    def get(self, request: Request, submission_id: uuid.UUID, evaluation_id: uuid.UUID) -> Response:
        """One judging of a submission, with its stage, place or report."""
        inputs.read(inputs.NoQuery, request.query_params)
        evaluation = queries.get_evaluation(viewer(request), evaluation_id)
        if evaluation.submission_id != submission_id:
            raise Http404
        _readable(request, evaluation.submission)
        live = queries.live_view(evaluation)
        tag = _tag(evaluation.submission, live)
        context = {"request": request, "live": live}
        return _conditional(request, tag) or Response(
            EvaluationDetail(evaluation, context=context).data, headers=_cache_headers(tag)
        )
