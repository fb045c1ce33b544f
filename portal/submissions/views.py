"""Submitting, following an evaluation, and what authors may do with their own."""

import json
import uuid
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import content_disposition_header, quote_etag
from django.views.decorators.http import require_http_methods, require_safe

from evaluator.contract import EvaluationReport, Mode, SourceBundle, SourceFile
from portal.accounts.identity import changing, signed_in
from portal.catalog.highlighting import reference_rows
from portal.catalog.queries import get_problem, judging_profiles, last_choice, switch
from portal.core.errors import NotFound, if_changed, uuid_of
from portal.core.pagination import BoundedPaginator
from portal.nodes.queries import online_profiles
from portal.submissions import access, actions, queries, sweeps
from portal.submissions.forms import (
    EvaluateForm,
    NotesForm,
    SubmissionForm,
    profiled_size,
    starters,
    starters_script,
    submit_data,
)
from portal.submissions.models import Evaluation, Submission
from portal.submissions.reports import differences, machine_code, over_size, presentation, timelines
from portal.tabular.tables import as_download
from problems import registry

PER_PAGE = 30
_EARLIER_SHOWN = 20
TABS = (
    ("statement", "Statement"),
    ("result", "Result"),
    ("arguments", "Arguments"),
    ("reference", "Reference"),
    ("changes", "Changes"),
)
"""What stands beside the editor, by the end of its element's id; the last one needs an earlier submission."""


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def new(request: HttpRequest, slug: str) -> HttpResponse:
    """The author's workbench of a problem: statement, editor and, after submitting, the verdict.

    A valid form leads to the submission's own page; sent by htmx, it is answered with the verdict as it comes.
    """
    problem = get_problem(slug)
    author = signed_in(request)
    chosen = judging_profiles(problem)
    data = submit_data(profiles=chosen, author=author, last=last_choice(request, [profile.name for profile in chosen]))
    on_workbench = request.headers.get("HX-Request") == "true"
    if request.method == "POST":
        form = SubmissionForm(request.POST, request.FILES, profiles=chosen)
        done = form.attempt(actions.create_submission, author, problem=slug)
        if done is not None and not on_workbench:
            return redirect("submissions:detail", done.submission.pk)
        if done is not None:
            live_parts = _live_parts(request, done.submission, *_evaluations(request, done.submission))
            return render(request, "submissions/_workbench_verdict.html", live_parts | {"on_workbench": True})
        if on_workbench:
            return render(request, "submissions/_refused.html", {"form": form}, status=form.status)
    else:
        form = SubmissionForm(
            profiles=chosen, initial=_initial(request, slug=slug, default_profile=data["default_profile"])
        )
    context = {
        "problem": problem,
        "form": form,
        "data": data,
        "switch": switch(slug),
        "statement": registry.statement(slug),
        "reference": reference_rows(slug),
        "starters": starters_script(slug),
        "earlier": (earlier := _earlier_work(request, slug)),
        "tabs": TABS if earlier["last"] is not None else TABS[:-1],
    }
    return render(request, "submissions/new.html", context, status=form.status)


def _earlier_work(request: HttpRequest, slug: str) -> dict[str, Any]:
    """The submission that the workbench starts from or the reader's last one, with the lines of its verdict."""
    wanted = request.GET.get("from")
    author = signed_in(request)
    submission = access.get_submission(author, wanted) if wanted else None
    return {
        "last": queries.last_submission(author, problem=slug),
        "started_from": submission,
        "marks_text": presentation.live_context(queries.live_view(queries.evaluations_of(submission)[0]))["marks_text"]
        if submission is not None
        else "",
    }


@changing
def draft_changes(request: HttpRequest, slug: str) -> HttpResponse:
    """The differences of the editor's text from the reader's last submission to the problem, line by line."""
    get_problem(slug)
    last = queries.own_submissions(signed_in(request), problem=slug).first()
    if last is None:
        return render(request, "submissions/_diff.html", {"files": []})
    kept = [file for file in last.source.files.files if file.path != SourceBundle.ENTRY]
    text = request.POST.get("source", "").replace("\r\n", "\n")
    draft = SourceBundle(files=(SourceFile(path=SourceBundle.ENTRY, text=text), *kept))
    return render(request, "submissions/_diff.html", {"files": differences.compare(last.source.files, draft)})


def _initial(request: HttpRequest, *, slug: str, default_profile: str) -> dict[str, str]:
    """First values of the form; `?from=<id>` starts from an earlier submission that the reader may see."""
    texts = starters(slug)
    initial = {
        "profile": request.GET.get("profile", default_profile),
        "backend": request.GET.get("backend", "pytorch"),
        "mode": "ranked",
        "visibility": "private",
        "key": uuid.uuid4().hex,
    }
    earlier = request.GET.get("from")
    if earlier:
        submission = access.get_submission(author := signed_in(request), earlier)
        if submission.problem == slug and (submission.author_id == author.pk or access.is_open_to_all(submission)):
            initial["built_on"] = str(submission.pk)
        bundle = access.readable_source(request.user, submission)
        if bundle is not None and len(bundle.files) == 1:
            return {**initial, "backend": submission.backend, "source": bundle.entry}
    return {**initial, "source": texts.get(initial["backend"], texts["pytorch"])}


@require_safe
@login_required
def mine(request: HttpRequest) -> HttpResponse:
    problem = request.GET.get("problem") or None
    pages = BoundedPaginator(queries.own_submissions(signed_in(request), problem=problem), PER_PAGE)
    context = {
        "is_cut": pages.is_cut,
        "most": pages.most,
        "page": pages.get_page(request.GET.get("page")),
        "problem": problem,
        "titles": {spec.slug: spec.title for spec in registry.problems()},
        "online": online_profiles(),
    }
    return render(request, "submissions/mine.html", context)


def _evaluations(request: HttpRequest, submission: Submission) -> tuple[Evaluation, tuple[Evaluation, ...]]:
    """The evaluation that the query string names, or the newest; and all of them, the newest first."""
    every = queries.evaluations_of(submission)
    wanted = request.GET.get("evaluation")
    found = next((each for each in every if each.pk == uuid_of(wanted)), None) if wanted else every[0]
    if found is None:
        message = "This submission has no such evaluation."
        raise NotFound("evaluation", wanted or "", message, "Open the submission without an evaluation in the address.")
    return found, every


@require_safe
def detail(request: HttpRequest, submission_id: uuid.UUID) -> HttpResponse:
    """One submission: state or verdict, per-rank detail, timing, logs, and the source where it may be read.

    Of a ranked entry with a private source everybody sees verdict, times, place under the roofline and environment.
    """
    try:
        submission = access.get_submission(request.user, submission_id)
    except NotFound:
        entry = access.public_entry(request.user, submission_id)
        if entry is None or (found := queries.latest_report(entry)) is None:
            raise
        context = {"submission": entry.submission, "problem": get_problem(entry.submission.problem)}
        context["parent"] = access.visible_parent(request.user, entry.submission)
        return render(request, "submissions/entry.html", context | presentation.entry_context(entry, found))
    evaluation, every = _evaluations(request, submission)
    problem = get_problem(submission.problem)
    bundle = access.readable_source(request.user, submission)
    parts = _live_parts(request, submission, evaluation, every)
    # Before the end any line may yet be one that the verdict is about, and the page marks it where it stands.
    is_whole = not evaluation.has_ended or request.GET.get("source") == "whole"
    sources = list(presentation.source_views(bundle, marks=parts["marks"], is_whole=is_whole)) if bundle else []
    context = {
        **parts,
        "problem": problem,
        "sources": sources,
        "has_more_lines": not is_whole and any(file.listing.left_out for file in sources),
        "previous": _previous(request, submission, evaluation),
        "parent": access.visible_parent(request.user, submission),
        "quarantines": list(submission.quarantines.all()),
        **_flagging(request, submission),
        "form": EvaluateForm(
            profiles=judging_profiles(problem),
            initial={"profile": evaluation.profile, "mode": evaluation.mode, "size": evaluation.size},
        )
        if parts["may_change"] and not submission.is_attempt
        else None,
        "is_current_revision": evaluation.problem_revision == registry.revision(problem.slug),
    }
    return render(request, "submissions/detail.html", context)


def _flagging(request: HttpRequest, submission: Submission) -> dict[str, Any]:
    is_others = request.user.is_authenticated and request.user.pk != submission.author_id
    # The last one, resolved or not; authors do not flag what is theirs.
    own = submission.flags.filter(by=request.user.pk).first() if is_others else None
    is_open = own is not None and own.resolved_at is None
    return {"own_flag": own, "may_flag": is_others and not is_open}


def _previous(request: HttpRequest, submission: Submission, evaluation: Evaluation) -> dict[str, Any] | None:
    """The author's previous attempt at the problem for the page; None if there is none to see."""
    earlier = access.earlier_submissions(submission, request.user).first()
    if earlier is None:
        return None
    files = differences.changes(*(access.readable_source(request.user, one) for one in (earlier, submission)))
    return {
        "submission": earlier,
        "evaluation": queries.last_finished(earlier, profile=evaluation.profile),
        "files": files,
        "added": sum(file.added for file in files or ()),
        "removed": sum(file.removed for file in files or ()),
        "is_partial": any(file.is_too_long for file in files or ()),
    }


REFERENCE = "reference"
"""What a submission is compared with, where it is not one other submission."""


@require_safe
def compare(request: HttpRequest, submission_id: uuid.UUID) -> HttpResponse:
    """The submission beside an earlier one of its author, or the reference."""
    submission = access.get_submission(request.user, submission_id)
    problem = get_problem(submission.problem)
    earlier = list(access.earlier_submissions(submission, request.user)[:_EARLIER_SHOWN])
    wanted = request.GET.get("with") or (str(earlier[0].pk) if earlier else REFERENCE)
    newest = queries.evaluations_of(submission)[0]
    context = {
        "submission": submission,
        "problem": problem,
        "earlier": earlier,
        "wanted": wanted,
        "evaluation": newest,
        "may_change": access.may_change(request.user, submission),
    }
    old = None if wanted == REFERENCE else access.get_submission(request.user, wanted)
    if old is not None and old not in earlier:
        earlier.append(old)
    reference = SourceFile(path=SourceBundle.ENTRY, text=registry.reference_source(problem.slug))
    base = access.readable_source(request.user, old) if old is not None else SourceBundle(files=(reference,))
    source = access.readable_source(request.user, submission)
    before = queries.last_finished(old, profile=newest.profile) if old is not None else None
    context |= {
        "old": old,
        "old_evaluation": before,
        "files": differences.changes(base, source),
        "times": queries.time_pairs(before, newest),
        **_recorded({"Before": before, "Now": newest} if before is not None else {"Submission": newest}),
    }
    return render(request, "submissions/compare.html", context)


def _recorded(evaluations: Mapping[str, Evaluation | None]) -> dict[str, Any]:
    """The recorded calls of these evaluations; of a single one, beside its reference."""
    found = {title: queries.latest_report(one) for title, one in evaluations.items() if one is not None}
    reports = {title: report for title, report in found.items() if report is not None}
    if not reports:
        return {}
    only = next(iter(reports.values()))
    calls = timelines.recorded_calls(only) if len(reports) == 1 else timelines.beside_each_other(reports)
    if not calls:
        return {}
    links = timelines.link_rows(timelines.comparable(reports))
    picture = timelines.picture(calls, least=timelines.least_work(list(reports.values())[-1]))
    return {"recorded_calls": calls, "timeline_picture": picture, "links": links}


def _live_parts(
    request: HttpRequest, submission: Submission, evaluation: Evaluation, every: tuple[Evaluation, ...]
) -> dict[str, Any]:
    live = queries.live_view(evaluation)
    return {
        **presentation.live_context(live),
        **_over_sizes(request, evaluation),
        "submission": submission,
        "evaluations": every,
        "may_change": access.may_change(request.user, submission),
        "etag": _etag(live),
    }


def _over_sizes(request: HttpRequest, evaluation: Evaluation) -> dict[str, Any]:
    """A sweep beside the newest ones of other authors on its profile."""
    if evaluation.mode != Mode.SWEEP:
        return {}
    problem = get_problem(evaluation.submission.problem)
    known = [each for each in over_size.known_sweeps(problem.slug, request.user) if each.profile == evaluation.profile]
    others = [each for each in known if each.submission.author_id != evaluation.submission.author_id]
    return over_size.over_sizes(request.GET, problem, evaluation.profile, [evaluation, *others])


def _etag(live: queries.LiveView) -> str:
    return quote_etag(f"{live.evaluation.pk}-{live.version}".encode().hex()[-200:])


@require_safe
def live(request: HttpRequest, submission_id: uuid.UUID) -> HttpResponse:
    """The part of the page that changes, for htmx; 304 while it has not."""
    submission = access.get_submission(request.user, submission_id)
    evaluation, every = _evaluations(request, submission)

    def respond() -> HttpResponse:
        context = _live_parts(request, submission, evaluation, every)
        if request.GET.get("desk"):
            return render(request, "submissions/_live.html", context | {"on_workbench": True})
        has_previous = access.earlier_submissions(submission, request.user).exists()
        return render(request, "submissions/live.html", context | {"has_previous": has_previous})

    return if_changed(request, _etag(queries.live_view(evaluation)), respond)


@require_safe
def source_file(request: HttpRequest, submission_id: uuid.UUID) -> HttpResponse:
    """One file of a submission as it was submitted, `solution.py` by default."""
    bundle = access.readable_source(request.user, access.get_submission(request.user, submission_id))
    path = request.GET.get("file", SourceBundle.ENTRY)
    found = next((file for file in bundle.files if file.path == path), None) if bundle else None
    if found is None:
        message = "This submission has no such file, or you may not read it."
        raise NotFound("file", path, message, "The submission's page lists its files.")
    headers = {"Content-Disposition": content_disposition_header(as_attachment=True, filename=PurePosixPath(path).name)}
    return HttpResponse(found.text, content_type="text/plain; charset=utf-8", headers=headers)


@require_safe
def report(request: HttpRequest, evaluation_id: uuid.UUID) -> HttpResponse:
    return _json_file(_finished_report(request, evaluation_id).to_json(), name=f"report-{evaluation_id}.json")


@require_safe
def sweep_csv(request: HttpRequest, evaluation_id: uuid.UUID) -> HttpResponse:
    """The points that a sweep has measured so far, as a table; without rows in other modes."""
    evaluation = access.get_evaluation(request.user, evaluation_id)
    return as_download(sweeps.table(evaluation), format="csv", name=f"sweep-{evaluation_id}")


@require_safe
def trace(request: HttpRequest, evaluation_id: uuid.UUID) -> HttpResponse:
    """The recorded call of all ranks as a trace that Perfetto and chrome://tracing open."""
    found = _finished_report(request, evaluation_id)
    if not timelines.recorded_calls(found):
        remedy = "Submit the source again. The judge now records a call of every submission that passes."
        raise NotFound("evaluation", evaluation_id, "No call of this evaluation was recorded.", remedy)
    return _json_file(json.dumps(timelines.trace(found)), name=f"trace-{evaluation_id}.json")


@require_safe
def machine_code_page(request: HttpRequest, evaluation_id: uuid.UUID) -> HttpResponse:
    """One kernel's machine code beside the lines of its source, for those who may read the source."""
    evaluation = access.get_evaluation(request.user, evaluation_id)
    submission = evaluation.submission
    source = access.readable_source(request.user, submission)
    found = queries.latest_report(evaluation)
    calls = timelines.recorded_calls(found) if found is not None else []
    rows = timelines.kernel_rows(calls[-1]) if calls else []
    views = machine_code.kernel_views(found, rows) if found is not None and source is not None else []
    number, start = _whole(request, "kernel"), _whole(request, "from")
    if found is None or found.machine_code is None or source is None or number >= len(views):
        remedy = "Submit the source in mode profile: its page then lists the kernels that were compiled."
        raise NotFound("kernel", request.GET.get("kernel", ""), "This evaluation has no such machine code.", remedy)
    view = views[number]
    entries = machine_code.instructions(view["code"])
    after = start + machine_code.PER_PAGE
    context = {
        "submission": submission,
        "evaluation": evaluation,
        "problem": get_problem(submission.problem),
        "back": f"{reverse('submissions:detail', args=[submission.pk])}?evaluation={evaluation.pk}",
        "kernel_views": views,
        "view": view,
        "passages": machine_code.passages(entries, files=found.machine_code.files, source=source, start=start),
        "before": max(0, start - machine_code.PER_PAGE) if start else None,
        "after": after if after < len(entries) else None,
        "kept": len(entries),
    }
    return render(request, "submissions/machine_code.html", context)


def _whole(request: HttpRequest, name: str) -> int:
    """A number of the query string; 0 for anything else."""
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 6 else 0


def _finished_report(request: HttpRequest, evaluation_id: uuid.UUID) -> EvaluationReport:
    found = queries.latest_report(access.get_evaluation(request.user, evaluation_id))
    if found is None:
        message = "There is no report on this evaluation yet."
        raise NotFound("evaluation", evaluation_id, message, "Wait until the evaluation has finished.")
    return found


def _json_file(text: str, *, name: str) -> HttpResponse:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return HttpResponse(text, content_type="application/json", headers=headers)


@changing
def cancel(request: HttpRequest, evaluation_id: uuid.UUID) -> HttpResponse:
    evaluation = access.get_evaluation(request.user, evaluation_id)
    actions.cancel_evaluation(evaluation, by=signed_in(request))
    messages.success(request, "The evaluation was cancelled.")
    return redirect("submissions:detail", evaluation.submission_id)


@changing
def visibility(request: HttpRequest, submission_id: uuid.UUID) -> HttpResponse:
    submission = access.get_submission(request.user, submission_id)
    chosen = request.POST.get("visibility", "")
    actions.set_visibility(submission, by=signed_in(request), visibility=chosen)
    messages.success(request, "The source is now public." if chosen == "public" else "The source is now private.")
    return redirect("submissions:detail", submission.pk)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def notes(request: HttpRequest, submission_id: uuid.UUID) -> HttpResponse:
    """Write what readers of the submission's page shall know, and what it is built on."""
    author = signed_in(request)
    submission = access.get_submission(author, submission_id)
    access.require_change(author, submission, remedy="Only its author can write its notes.")
    form = NotesForm(
        request.POST if request.method == "POST" else None,
        initial={"notes": submission.notes, "built_on": submission.built_on_id},
    )
    form.fields["notes"].disabled = submission.has_cleared_notes
    if request.method == "POST":
        form.attempt(actions.annotate, submission, by=author)
        if not form.errors:
            messages.success(request, "The notes are saved.")
            return redirect(f"{reverse('submissions:detail', args=[submission.pk])}#notes")
    context = {"submission": submission, "problem": get_problem(submission.problem), "form": form}
    return render(request, "submissions/notes.html", context, status=form.status)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def flag(request: HttpRequest, submission_id: uuid.UUID) -> HttpResponse:
    """Flag an entry for the operators, also one whose author keeps its source private."""
    reader = signed_in(request)
    submission = access.get_flaggable(reader, submission_id)
    if request.method == "POST":
        actions.flag(submission, reason=request.POST.get("reason", ""), by=reader)
        messages.success(request, "The operators will review the entry.")
        if access.visible_submissions(reader).filter(pk=submission.pk).exists():
            return redirect("submissions:detail", submission.pk)
        return redirect("ranking:board", submission.problem)
    context = {
        "submission": submission,
        "problem": get_problem(submission.problem),
        "entries": queries.accepted().filter(submission=submission),
        **_flagging(request, submission),
    }
    return render(request, "submissions/flag.html", context)


@changing
def evaluate(request: HttpRequest, submission_id: uuid.UUID) -> HttpResponse:
    submission = access.get_submission(request.user, submission_id)
    remedy = "Submit the source yourself to have it judged under your name."
    access.require_change(request.user, submission, remedy=remedy)
    evaluation = actions.queue_evaluation(
        submission,
        profile=request.POST.get("profile", ""),
        mode=request.POST.get("mode", ""),
        size=profiled_size(request.POST),
    )
    return redirect(f"{reverse('submissions:detail', args=[submission.pk])}?evaluation={evaluation.pk}")
