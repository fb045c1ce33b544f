"""What an operator sees of submissions: nothing here can be edited, because actions make every move."""

from collections.abc import Callable, Iterable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, path

from evaluator.hardware.profiles import profiles
from portal.submissions import actions, queries
from portal.submissions.admin_lists import ByProblem, ByProblemOfSubmission, ByProfile, Created, LargeTable, Period
from portal.submissions.gpu_time import expected_gpu_s
from portal.submissions.models import Evaluation, ProfileSwitch, Report, Submission

REJUDGED_SHOWN = 200


class ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]
    """A list and a view without any way to change a row past the actions."""

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002 - Django's signature
        """Nobody adds here."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Nobody changes here."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Nobody deletes here."""
        return False


@admin.register(Submission)
class SubmissionAdmin(ReadOnly, LargeTable):
    """Submissions."""

    list_display = ("id", "author", "problem", "backend", "visibility", "created_at")
    list_filter = (Created, "backend", ByProblem)
    list_select_related = ("author",)
    ordering = ("-created_at", "-id")
    found_by_id = ("pk", "evaluations")
    found_by_author = "author"


@admin.register(Evaluation)
class EvaluationAdmin(ReadOnly, LargeTable):
    """Evaluations: filter them, then have what is shown judged again, or look at what a rejudge changed."""

    change_list_template = "admin/evaluations.html"
    actions = ("judge_again", "judge_again_and_refund")

    list_display = ("short", "author", "problem", "profile", "mode", "state", "verdict", "attempt", "node", "queued_at")
    list_filter = (
        Period,
        "state",
        "verdict",
        ByProfile,
        "mode",
        "submission__backend",
        "submission__is_attempt",
        "node",
        ByProblemOfSubmission,
    )
    ordering = ("-queued_at", "-id")
    found_by_id = ("pk", "submission")
    found_by_author = "submission__author"
    list_select_related = ("submission__author", "node")

    @admin.display(description="evaluation", ordering="id")
    def short(self, evaluation: Evaluation) -> str:
        """The beginning of its identifier."""
        return str(evaluation.pk)[:8]

    @admin.display(ordering="submission__author__username")
    def author(self, evaluation: Evaluation) -> str:
        """Whose submission it judges."""
        return evaluation.submission.author.username

    @admin.display(ordering="submission__problem")
    def problem(self, evaluation: Evaluation) -> str:
        """What it is about."""
        return evaluation.submission.problem

    @admin.action(description="Judge again: shows count and GPU time first")
    def judge_again(self, request: HttpRequest, queryset: QuerySet[Evaluation]) -> HttpResponse | None:
        """Show how many would be judged again and what that takes, then queue them after everybody else's work."""
        return self._confirm(request, queryset, action="judge_again", act=actions.rejudge)

    @admin.action(description="Judge again and give back the GPU time: for errors of ours under a submission")
    def judge_again_and_refund(self, request: HttpRequest, queryset: QuerySet[Evaluation]) -> HttpResponse | None:
        """The same, and what the evaluations have cost their organisations is given back."""
        return self._confirm(request, queryset, action="judge_again_and_refund", act=actions.rejudge_and_refund)

    def _confirm(
        self,
        request: HttpRequest,
        queryset: QuerySet[Evaluation],
        *,
        action: str,
        act: Callable[[Iterable[Evaluation]], list[Evaluation]],
    ) -> HttpResponse | None:
        chosen = queryset.order_by().select_related("submission")
        if "confirmed" in request.POST:
            queued = act(chosen)
            messages.success(request, f"{len(queued)} evaluations were queued again; what was found stays beside it.")
            return None
        counts = dict(chosen.values_list("profile").annotate(count=Count("submission", distinct=True)))
        table = [
            (profile, count, f"{expected_gpu_s(profile, evaluations=count):,.0f}") for profile, count in counts.items()
        ]
        context = {
            **self.admin_site.each_context(request),
            "title": "Judge again",
            "summary": f"{sum(counts.values())} submissions would be judged at their problems' present revisions. "
            "Those that wait already are left out.",
            "table_head": ("Profile", "Submissions", "GPU-seconds, about"),
            "table": table,
            "action": action,
            # With "select all" the filters in the address choose again; the ids would not fit into a form.
            "selected": list(queryset.values_list("pk", flat=True)[:100]),
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
            "select_across": request.POST.get("select_across", "0"),
            "opts": self.opts,
        }
        return render(request, "admin/confirm_action.html", context)

    def get_urls(self) -> list[URLPattern]:
        """The usual ones, and what rejudges changed."""
        rejudged = self.admin_site.admin_view(self.rejudged)
        return [path("rejudged/", rejudged, name="submissions_evaluation_rejudged"), *super().get_urls()]

    def rejudged(self, request: HttpRequest) -> HttpResponse:
        """What rejudges found beside what had been found before, the newest first."""
        context = {
            **self.admin_site.each_context(request),
            "title": "Judged again: old and new",
            "pairs": queries.rejudged_pairs()[:REJUDGED_SHOWN],
            "opts": self.opts,
        }
        return render(request, "admin/rejudged.html", context)


@admin.register(ProfileSwitch)
class ProfileSwitchAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Pausing the queue of a profile."""

    list_display = ("profile", "is_paused", "note")
    list_editable = ("is_paused",)

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        """The profile is chosen from those there are."""
        if db_field.name == "profile":
            choices = [(profile.name, f"{profile.name}: {profile.title}") for profile in profiles().values()]
            return forms.ChoiceField(choices=choices)
        return super().formfield_for_dbfield(db_field, request, **kwargs)


@admin.register(Report)
class ReportAdmin(ReadOnly, LargeTable):
    """Reports, the last one first. A node's are found through its evaluations."""

    list_display = ("evaluation", "attempt", "node_name", "received_at")
    list_select_related = ("evaluation",)
    ordering = ("-pk",)
    found_by_id = ("evaluation", "evaluation__submission")
    found_by_author = "evaluation__submission__author"
