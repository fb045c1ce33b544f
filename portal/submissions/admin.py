"""What an operator sees of submissions: nothing here can be edited, because actions make every move."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Count, Exists, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from evaluator.hardware.profiles import profiles
from portal.accounts.identity import signed_in
from portal.accounts.models import User
from portal.core.admin import NoAdding, ReadOnly, ReasonForm, confirm, confirmed, nobody
from portal.core.errors import Refusal
from portal.submissions import actions as submissions
from portal.submissions import queries, quotas
from portal.submissions.admin_filters import (
    Created,
    LargeList,
    Period,
    ProblemFilter,
    ProfileFilter,
    SubmissionProblemFilter,
)
from portal.submissions.forms import profile_choices
from portal.submissions.models import (
    AllowanceLimit,
    Evaluation,
    Flag,
    GpuUse,
    ProfileState,
    Quarantine,
    Report,
    State,
    Submission,
)

ACTED_AT_ONCE = 100


class OfSubmission(ReadOnly, LargeList):
    ids: tuple[str, ...] = ("submission",)
    author_column, problem_column = "submission__author", "submission__problem"


def _decision(act: Callable[..., object], title: str, description: str) -> Callable[..., HttpResponse | None]:
    """An action that asks for a reason and calls `act` on every chosen row with it; a refusal is shown with its row."""

    @admin.action(description=description)
    def decide(model_admin: Any, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        form = ReasonForm(confirmed(request))
        chosen = queryset[:ACTED_AT_ONCE]
        if not form.is_valid():
            keys = list(queryset.values_list("pk", flat=True)[:ACTED_AT_ONCE])
            shown = {"title": title, "rows": [str(row) for row in chosen], "selected": keys, "select_across": "0"}
            return confirm(model_admin, request, queryset, form, **shown)
        for row in chosen:
            try:
                act(row, reason=form.cleaned_data["reason"], by=signed_in(request))
            except Refusal as refusal:
                messages.error(request, f"{row}: {refusal.sentences}")
            else:
                messages.success(request, f"Done: {row}")
                model_admin.log_change(request, row, f"{title}: {form.cleaned_data['reason']}")
        return None

    return decide


def _quarantine_flagged(row: Flag, *, reason: str, by: User) -> None:
    with transaction.atomic():
        submissions.quarantine(row.submission, reason=reason, by=by)
        submissions.resolve_flags(row.submission, outcome=f"In quarantine: {reason}", by=by)


def _resolve(row: Flag, *, reason: str, by: User) -> None:
    submissions.resolve_flags(row.submission, outcome=reason, by=by)


def _judging(act: Callable[..., list[Evaluation]], description: str) -> Callable[..., HttpResponse | None]:
    """An action that shows how many would be judged again and what that takes, then has `act` queue them."""

    @admin.action(description=description)
    def judge(model_admin: Any, request: HttpRequest, queryset: QuerySet[Evaluation]) -> HttpResponse | None:
        chosen = queryset.order_by().select_related("submission")
        form = ReasonForm(confirmed(request))
        if form.is_valid():
            queued = act(chosen, reason=form.cleaned_data["reason"])
            messages.success(request, f"{len(queued)} evaluations were queued again. The earlier results stay.")
            return None
        counts = dict(chosen.values_list("profile").annotate(count=Count("submission", distinct=True)))
        return confirm(
            model_admin,
            request,
            queryset,
            form,
            title="Judge again",
            summary=f"{sum(counts.values())} submissions would be judged at their problems' current revisions. "
            "Submissions that wait already are left out.",
            table_head=("Profile", "Submissions", "GPU-seconds, about"),
            table=[
                (name, count, f"{quotas.price_of(name).usual_gpu_s * count:,.0f}") for name, count in counts.items()
            ],
            # With "select all" the filters in the address choose again; the ids would not fit into a form.
            selected=list(queryset.values_list("pk", flat=True)[:100]),
        )

    return judge


@admin.register(Submission)
class SubmissionAdmin(ReadOnly, LargeList):
    """Submissions, each with the result of its newest evaluation; entries are put into quarantine here."""

    list_display = ("short", "author", "problem", "backend", "verdict", "in_quarantine", "visibility", "created_at")
    list_filter = (Created, ProblemFilter, "backend", "visibility", "is_attempt")
    ordering = ("-created_at", "-id")
    list_select_related = ("author",)
    author_column, problem_column = "author", "problem"
    actions = ("quarantine", "lift", "clear_notes", "free_notes")
    exclude = ("source",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Submission]:
        """With the newest verdict and whether a quarantine is in force; looked up for the rows shown alone."""
        newest = Evaluation.objects.filter(submission=OuterRef("pk")).order_by("-queued_at")
        state = Subquery(newest.values("state")[:1])
        in_force = Exists(queries.quarantined().filter(submission=OuterRef("pk")))
        verdict = Subquery(newest.values("verdict")[:1])
        found: QuerySet[Submission] = super().get_queryset(request)
        return found.annotate(newest_state=state, newest_verdict=verdict, is_quarantined=in_force)

    @admin.display
    def verdict(self, submission: Any) -> str:
        return submission.newest_verdict or State(submission.newest_state).label if submission.newest_state else "none"

    @admin.display(boolean=True, description="quarantine")
    def in_quarantine(self, submission: Any) -> bool:
        return bool(submission.is_quarantined)

    quarantine = _decision(
        submissions.quarantine, "Put entries into quarantine", "Quarantine: off every board, with a public reason"
    )
    lift = _decision(submissions.lift_quarantine, "Lift quarantines", "Lift the quarantine, with a public reason")
    clear_notes = _decision(
        submissions.clear_notes, "Clear notes", "Clear the author's notes: a public reason stands in their place"
    )
    free_notes = _decision(submissions.free_notes, "Free notes", "Let the author write notes again, where cleared")


@admin.register(Flag)
class FlagAdmin(OfSubmission):
    list_display = (
        "at",
        "entry",
        "submission__author__username",
        "submission__problem",
        "by",
        "reason",
        "resolved_by",
        "outcome",
    )
    list_filter = (("resolved_at", admin.EmptyFieldListFilter), SubmissionProblemFilter)
    list_select_related = ("submission__author", "by", "resolved_by")
    actions = ("quarantine", "resolve")

    @admin.display(description="entry")
    def entry(self, flag: Flag) -> SafeString:
        address = reverse("submissions:detail", args=[flag.submission_id])
        return format_html('<a href="{}">{}</a>', address, str(flag.submission_id)[:8])

    quarantine = _decision(
        _quarantine_flagged,
        "Put entries into quarantine",
        "Quarantine the entries, with a public reason; resolves the flags",
    )
    resolve = _decision(
        _resolve, "Resolve flags", "Resolve: keep the entries, with an answer to those who flagged them"
    )


@admin.register(Quarantine)
class QuarantineAdmin(OfSubmission):
    list_display = (
        "at",
        "submission",
        "submission__author__username",
        "submission__problem",
        "reason",
        "by",
        "lifted_at",
        "lifted_by",
        "lift_reason",
    )
    list_filter = (SubmissionProblemFilter,)
    list_select_related = ("submission__author", "by", "lifted_by")


@admin.register(Evaluation)
class EvaluationAdmin(OfSubmission):
    """Evaluations: filter them, then judge what is shown again."""

    actions = ("judge_again", "judge_again_and_refund", "confirm_here")

    list_display = (
        "short",
        "queued_at",
        "submission__author__username",
        "verdict",
        "submission__problem",
        "profile",
        "mode",
        "state",
        "has_alarms",
        "attempt",
        "node",
    )
    ordering = ("-queued_at", "-id")
    list_filter = (
        Period,
        "state",
        "verdict",
        "has_alarms",
        ProfileFilter,
        "mode",
        "submission__backend",
        "submission__is_attempt",
        "node",
        "node_owner",
        SubmissionProblemFilter,
    )
    list_select_related = ("submission__author", "node")
    ids = ("pk", "submission")

    judge_again = _judging(submissions.rejudge, "Judge again: shows count and GPU time first")
    judge_again_and_refund = _judging(
        submissions.rejudge_and_refund, "Judge again and refund the GPU time: after failures of the site or a node"
    )
    confirm_here = _judging(submissions.confirm_here, "Judge on this site's own nodes what a guest node has accepted")


@admin.register(GpuUse)
class GpuUseAdmin(ReadOnly, LargeList):
    list_display = (
        "account",
        "organisation",
        "evaluation",
        "evaluation__profile",
        "reserved_gpu_s",
        "used_gpu_s",
        "at",
    )
    list_select_related = ("account", "organisation", "evaluation")
    ordering = ("-id",)
    ids = ("evaluation", "evaluation__submission")
    author_column, problem_column = "account", "evaluation__submission__problem"


class AllowanceLimitForm(forms.ModelForm):  # type: ignore[type-arg]
    """A limit names a profile that exists; the model checks that it names whom its scope does."""

    profile = forms.ChoiceField(required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        named = profile_choices(profiles().values())
        self.fields["profile"].choices = [("", "All profiles together"), *named]  # type: ignore[attr-defined]


@admin.register(AllowanceLimit)
class AllowanceLimitAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """What accounts and organisations may use in a day. Without a row, the settings decide."""

    form = AllowanceLimitForm
    list_display = ("scope", "account", "organisation", "profile", "gpu_seconds_per_day", "queued_at_most", "reason")
    list_filter = ("scope",)
    list_select_related = ("account", "organisation")
    autocomplete_fields = ("account", "organisation")
    search_fields = ("account__username", "organisation__slug")


@admin.register(ProfileState)
class ProfileStateAdmin(NoAdding, admin.ModelAdmin):  # type: ignore[type-arg]
    """Pausing the queue of a profile. The dispatcher makes a row for every profile that there is."""

    list_display = ("profile", "is_paused", "note")
    list_editable = ("is_paused",)
    ordering = ("profile",)
    fields = ("profile", "is_paused", "note")
    readonly_fields = ("profile",)
    has_delete_permission = nobody  # turns would begin anew

    def save_model(self, request: HttpRequest, obj: ProfileState, form: Any, change: bool) -> None:  # noqa: ARG002, FBT001
        """Save what operators decide alone: the dispatcher may be writing the rest."""
        obj.save(update_fields=["is_paused", "note"])


@admin.register(Report)
class ReportAdmin(ReadOnly, LargeList):
    list_display = (
        "id",
        "evaluation",
        "evaluation__submission__author__username",
        "evaluation__submission__problem",
        "evaluation__verdict",
        "attempt",
        "node_name",
        "received_at",
    )
    list_filter = ("evaluation__verdict",)
    list_select_related = ("evaluation__submission__author",)
    ordering = ("-id",)
    ids = ("evaluation", "evaluation__submission")
    author_column, problem_column = "evaluation__submission__author", "evaluation__submission__problem"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Report]:
        """Without the reports themselves, which are hundreds of kilobytes each."""
        found: QuerySet[Report] = super().get_queryset(request)
        return found.defer("content", "error_log")
