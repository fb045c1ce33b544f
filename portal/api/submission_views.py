"""Submitting, following, reading, cancelling and judging again."""

import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet
from django.http import Http404, HttpResponse
from drf_spectacular.utils import OpenApiExample, OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from evaluator.contract import SourceBundle
from portal.accounts.identity import signed_in
from portal.accounts.models import ApiToken, TokenScope
from portal.api import auth, inputs, schema
from portal.api.base import SIGNED_IN, NewestFirst, Resource, file_of, operation
from portal.api.parsers import JSONParser, MultiPartParser
from portal.api.submission_outputs import EvaluationDetail, SourceOutput, SubmissionBrief, SubmissionDetail
from portal.core.errors import Refusal, if_changed
from portal.submissions import access, actions, queries
from portal.submissions.models import Evaluation, Submission, Visibility
from portal.submissions.reports import machine_code, presentation, timelines

_FILES = ("source", "files", "file")
"""The inputs that bring the source; the others are what the action takes."""
_ETAGS = (
    OpenApiParameter(
        "If-None-Match",
        str,
        "header",
        description="The ETag of an earlier response. If nothing changed, the status is 304 without a body.",
    ),
    OpenApiParameter(
        "ETag", str, "header", response=[200, 304], description="Send it as If-None-Match in the next request."
    ),
)
_IDEMPOTENCY_KEY = schema.idempotency_key(
    "A repeated call with the same key returns the same submission. The same key with "
    "another problem, backend, profile, mode, size, visibility or source is refused with 409, which names what differs."
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


class SubmissionResource(Resource):
    """What concerns one submission: public ones are open, and `runs:read` is enough for those and attempts of runs."""

    tag = "Submissions"
    read_scope = TokenScope.READ
    write_scope = TokenScope.SUBMIT
    also_enough = frozenset({TokenScope.RUNS_READ.value})


class Submissions(SubmissionResource):
    also_enough = frozenset()
    permission_classes = SIGNED_IN
    pagination_class = NewestFirst
    parser_classes = (JSONParser, MultiPartParser)

    @operation("listSubmissions", "List own submissions", SubmissionBrief, many=True, query=inputs.SubmissionsQuery)
    def list(self, request: Request) -> QuerySet[Submission]:
        """Own submissions, the newest first, by cursor: follow `next` until it is null."""
        return _selected(signed_in(request), self.query)

    @operation(
        "createSubmission",
        "Submit",
        SubmissionDetail,
        status=201,
        body={"application/json": inputs.SubmissionInput, "multipart/form-data": inputs.SubmissionUpload},
        headers=(_IDEMPOTENCY_KEY, schema.LOCATION),
        examples=(_EXAMPLE,),
        refuses=(404, 409),
    )
    def create(self, request: Request) -> Response:
        """Store a source and queue its first evaluation: JSON with `source` or `files`, or a form with `file`."""
        values = self.body()
        key = inputs.idempotency_key(request)
        with _input_names(file=next(name for name in _FILES if name in values)):
            submitted = actions.create_submission(
                signed_in(request),
                files=inputs.bundle_of(values),
                idempotency_key=key,
                **{name: value for name, value in values.items() if name not in _FILES},
            )
        body = _detail(request, submitted.submission, submitted.evaluations, is_new=submitted.is_new)
        return Response(body, status=201, headers={"Location": body["url"]})


def _selected(user: Any, wanted: Mapping[str, Any]) -> QuerySet[Submission]:
    chosen = queries.own_submissions(user, problem=wanted.get("problem")).select_related("author")
    outcome = {name: wanted[name] for name in ("state", "verdict") if name in wanted}
    if not outcome:
        return chosen
    # By way of the evaluations, which indexes find where few are in that state; those that a later one follows are not
    # what the submission shows.
    later = Evaluation.objects.filter(submission=OuterRef("submission"), queued_at__gt=OuterRef("queued_at"))
    newest = Evaluation.objects.filter(submission=OuterRef("pk"), **outcome).exclude(Exists(later))
    return chosen.filter(Exists(newest))


def _detail(
    request: Request,
    submission: Submission,
    evaluations: Sequence[Evaluation],
    live: queries.LiveView | None = None,
    *,
    is_new: bool = False,
) -> dict[str, Any]:
    live = live or queries.live_view(evaluations[0])
    newest = _evaluation_detail(request, live)
    context = {"request": request, "newest": newest, "evaluations": evaluations, "is_new": is_new}
    return dict(SubmissionDetail(submission, context=context).data)


def _evaluation_detail(request: Request, live: queries.LiveView) -> dict[str, Any]:
    return dict(EvaluationDetail(live.evaluation, context={"request": request, "live": live}).data)


def _public_view(request: Request, submission_id: uuid.UUID) -> queries.LiveView | None:
    """What everybody may read of a ranked entry whose source the caller may not; None where the page is theirs."""
    entry = access.public_entry(request.user, submission_id)
    live = queries.live_view(entry) if entry is not None else None
    return (
        replace(live, report=presentation.public_part(live.report))
        if live is not None and live.report is not None
        else None
    )


def _tag(submission: Submission, evaluations: Iterable[Evaluation], live: queries.LiveView) -> str:
    """The entity tag of a submission or evaluation as it now is; an earlier evaluation may still be under way."""
    others = (f"{other.pk} {other.state} {other.verdict}" for other in evaluations)
    columns = (str(getattr(submission, field.attname)) for field in submission._meta.concrete_fields)  # noqa: SLF001 - Django's name for it
    parts = (*columns, str(live.evaluation.pk), live.version, *others)
    return f'"{hashlib.sha256("|".join(parts).encode()).hexdigest()[:32]}"'


def _require_readable(request: Request, submission: Submission) -> None:
    """Refuse a token that is for runs alone, unless the submission is public or an attempt."""
    is_open = submission.is_attempt or submission.visibility == Visibility.PUBLIC
    if isinstance(request.auth, ApiToken) and TokenScope.READ not in request.auth.scopes and not is_open:
        raise auth.scope_missing(TokenScope.READ.value)


def get_evaluation(request: Request, submission_id: uuid.UUID, evaluation_id: uuid.UUID) -> Evaluation:
    """An evaluation of a submission that the caller and their token may read."""
    evaluation = access.get_evaluation(request.user, evaluation_id)
    if evaluation.submission_id != submission_id:
        raise Http404
    _require_readable(request, evaluation.submission)
    return evaluation


class SingleSubmission(SubmissionResource):
    @operation("readSubmission", "Read a submission", {200: SubmissionDetail, 304: None}, headers=_ETAGS)
    def retrieve(self, request: Request, submission_id: uuid.UUID) -> HttpResponse:
        """A submission with stage, queue position or report of its newest evaluation. Poll it with If-None-Match.

        Of a ranked entry that passed, whose source is private, everybody reads verdict, times and environment.
        """
        if (public := _public_view(request, submission_id)) is not None:
            entry = public.evaluation
            return Response(_detail(request, entry.submission, [entry], public) | {"note": "", "source_digest": ""})
        submission = access.get_submission(request.user, submission_id)
        _require_readable(request, submission)
        evaluations = queries.evaluations_of(submission)
        live = queries.live_view(evaluations[0])
        tag = _tag(submission, evaluations, live)
        return if_changed(request, tag, lambda: Response(_detail(request, submission, evaluations, live)))

    @operation("readSource", "Read a submission's source", SourceOutput)
    def source(self, request: Request, submission_id: uuid.UUID) -> SourceBundle:
        """The files as they are judged."""
        submission = access.get_submission(request.user, submission_id)
        _require_readable(request, submission)
        files = access.readable_source(request.user, submission)
        if files is None:
            raise Http404
        return files

    @operation("cancelSubmission", "Cancel a submission's newest evaluation", SubmissionDetail, refuses=(409,))
    def cancel(self, request: Request, submission_id: uuid.UUID) -> Response:
        """Cancel the newest evaluation; the node that works on it stops."""
        user = signed_in(request)
        submission = access.get_submission(user, submission_id)
        evaluations = queries.evaluations_of(submission)
        actions.cancel_evaluation(evaluations[0], by=user)
        return Response(_detail(request, submission, evaluations))

    @operation(
        "annotateSubmission",
        "Write a submission's notes",
        SubmissionDetail,
        body=inputs.NotesInput,
        refuses=(404, 409),
    )
    def annotate(self, request: Request, submission_id: uuid.UUID) -> Response:
        """Replace the notes and what the submission is built on, before or after the verdict."""
        user = signed_in(request)
        submission = access.get_submission(user, submission_id)
        actions.annotate(submission, by=user, **self.body())
        return Response(_detail(request, submission, queries.evaluations_of(submission)))


class Evaluations(SubmissionResource):
    @operation(
        "createEvaluation",
        "Judge a submission again",
        EvaluationDetail,
        status=201,
        body=inputs.EvaluationInput,
        headers=(schema.LOCATION,),
        refuses=(409,),
    )
    def create(self, request: Request, submission_id: uuid.UUID) -> Response:
        """Queue one more evaluation of an own submission, on the same or another profile. None is overwritten."""
        user = signed_in(request)
        submission = access.get_submission(user, submission_id)
        access.require_change(user, submission, remedy="Submit the source yourself to have it judged.")
        values = self.body()
        # The only refusal that names the source here says that this profile already has it in the queue.
        with _input_names(file="profile"):
            evaluation = actions.queue_evaluation(submission, **values)
        body = _evaluation_detail(request, queries.live_view(evaluation))
        return Response(body, status=201, headers={"Location": body["url"]})

    @operation("readEvaluation", "Read an evaluation", {200: EvaluationDetail, 304: None}, headers=_ETAGS)
    def retrieve(self, request: Request, submission_id: uuid.UUID, evaluation_id: uuid.UUID) -> HttpResponse:
        """One evaluation of a submission, with its stage, queue position or report."""
        if (public := _public_view(request, submission_id)) is not None and public.evaluation.pk == evaluation_id:
            return Response(_evaluation_detail(request, public))
        evaluation = get_evaluation(request, submission_id, evaluation_id)
        live = queries.live_view(evaluation)
        tag = _tag(evaluation.submission, queries.evaluations_of(evaluation.submission), live)
        return if_changed(request, tag, lambda: Response(_evaluation_detail(request, live)))

    @operation("readTrace", "Read the timeline of a recorded call", file_of("application/json"))
    def trace(self, request: Request, submission_id: uuid.UUID, evaluation_id: uuid.UUID) -> HttpResponse:
        """All ranks of the submission and the reference as a trace that Perfetto opens; 404 where none was recorded."""
        report = queries.latest_report(get_evaluation(request, submission_id, evaluation_id))
        if report is None or not timelines.recorded_calls(report):
            raise Http404
        return HttpResponse(json.dumps(timelines.trace(report)), content_type="application/json")

    @operation("readMachineCode", "Read the machine code of kernels", file_of("application/json"))
    def machine_code(self, request: Request, submission_id: uuid.UUID, evaluation_id: uuid.UUID) -> HttpResponse:
        """Kernels that mode profile found, each instruction with file and line; 404 where none was compiled."""
        report = queries.latest_report(get_evaluation(request, submission_id, evaluation_id))
        if report is None or report.machine_code is None:
            raise Http404
        return HttpResponse(json.dumps(machine_code.data(report)), content_type="application/json")
