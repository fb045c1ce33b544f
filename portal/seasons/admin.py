"""Where operators define seasons, and have leaders judged again."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from portal.core.admin import ReadOnly
from portal.core.errors import Refusal
from portal.seasons import actions, queries
from portal.seasons.definition import Definition, made
from portal.seasons.models import Entry, Season, Team


class SeasonForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Season
        fields = Definition.__struct_fields__

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if self.errors:
            return values
        try:
            # Also what changes: the action that stores it refuses the same, too late for a form.
            self.definition = made({name: values[name] for name in Definition.__struct_fields__})
            if self.instance.pk:
                # As the database has it: Django has put the form's values into its own copy.
                actions.check_change(Season.objects.get(pk=self.instance.pk), self.definition, timezone.now())
        except Refusal as refusal:
            known = refusal.field if refusal.field in self.fields else None
            self.add_error(known, refusal.sentences)
        return values


@admin.register(Season)
class SeasonAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Seasons. A file loaded by `manage.py season load` does the same."""

    form = SeasonForm
    list_display = ("slug", "title", "profile", "opens_at", "closes_at", "phase", "judged")
    readonly_fields = ("announced_closes_at", "rejudge_at", "final_at", "example")
    actions = ("judge_failed_again", "judge_leaders_again", "finish")

    def has_delete_permission(self, request: HttpRequest, obj: Season | None = None) -> bool:
        """Not once people have entered it."""
        return super().has_delete_permission(request, obj) and not (obj is not None and obj.teams.exists())

    def get_actions(self, request: HttpRequest) -> Any:
        """Without deleting many at once, which asks for none of them."""
        return {name: each for name, each in super().get_actions(request).items() if name != "delete_selected"}

    def save_model(self, request: HttpRequest, obj: Season, form: Any, change: bool) -> None:  # noqa: ARG002, FBT001 - Django's signature
        stored = actions.define(form.definition, now=timezone.now())
        obj.pk = stored.pk
        obj.refresh_from_db()

    @admin.display(description="phase")
    def phase(self, season: Season) -> str:
        return season.phase(timezone.now()).label

    @admin.display(description="judged, judged again")
    def judged(self, season: Season) -> str:
        counts = queries.counts(season)
        return (
            f"{counts.entries - counts.pending} of {counts.entries}, "
            f"{counts.rejudged - counts.rejudge_pending} of {counts.rejudged}"
        )

    @admin.action(description="After the end: judge again the entries that a failure of the site or a node ended")
    def judge_failed_again(self, request: HttpRequest, queryset: QuerySet[Season]) -> None:
        self._act(request, queryset, lambda season: len(actions.judge_failed_again(season, now=timezone.now())))

    @admin.action(description="After the end: judge the leaders again on fresh inputs")
    def judge_leaders_again(self, request: HttpRequest, queryset: QuerySet[Season]) -> None:
        self._act(request, queryset, lambda season: len(actions.rejudge_leaders(season, now=timezone.now())))

    @admin.action(description="Make the standings final and publish the sources that the rules name")
    def finish(self, request: HttpRequest, queryset: QuerySet[Season]) -> None:
        self._act(request, queryset, lambda season: actions.finish(season, now=timezone.now()) and None)

    def _act(self, request: HttpRequest, queryset: QuerySet[Season], act: Any) -> None:
        for season in queryset:
            try:
                queued = act(season)
            except Refusal as refusal:
                messages.error(request, f"{season}: {refusal.sentences}")
                continue
            messages.success(request, f"{season}: {'done' if queued is None else f'{queued} evaluations queued'}.")


@admin.register(Team)
class TeamAdmin(ReadOnly):
    list_display = ("name", "season", "organisation", "person", "created_at")
    list_filter = ("season",)
    list_select_related = ("season", "organisation", "person")


@admin.register(Entry)
class EntryAdmin(ReadOnly):
    list_display = ("problem", "season", "team", "entered_at", "refused")
    list_filter = ("season", "problem")
    list_select_related = ("season", "team")
    raw_id_fields = ("evaluation", "final")
