"""Lists of the admin over tables with millions of rows: no count of them all, no values gathered from them all.

A list of evaluations or submissions shows the newest `NEWEST` until the operator chooses a period or searches. So each
filter, and any of them together, reads a few thousand rows.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.contrib.admin import helpers
from django.core.paginator import Page
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from evaluator.hardware.profiles import profiles
from portal.accounts.models import User
from portal.core.errors import uuid_of
from portal.core.pagination import BoundedPaginator
from problems import registry

NEWEST = 1000
_WHOLE = "all"
_DAYS = {"day": 1, "week": 7, "month": 30}
_AUTHORS = 50


class CappedPaginator(BoundedPaginator):
    """Pages over the first rows: who wants to see the four-thousandth narrows the list."""

    most = 4 * NEWEST

    def page(self, number: int | str) -> Page[Any]:
        """A page whose keys are read first: joins and annotations are for its rows alone.

        Otherwise the database would make them for all rows of the pages before as well. As one statement it would
        choose its way by an estimate of how many keys there are, and be wrong after many new rows.
        """
        found: Page[Any] = super().page(number)
        rows: Any = self.object_list
        keys: Any = found.object_list
        found.object_list = rows.filter(pk__in=list(keys.values_list("pk", flat=True))) if self.count else rows.none()
        return found


class Period(admin.SimpleListFilter):
    """The newest rows, those of some days, or all. A search is in all."""

    title = "period"
    parameter_name = "period"
    moment = "queued_at"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002 - Django's
        return [*((name, f"The last {name}") for name in _DAYS), (_WHOLE, "From the beginning (slow)")]

    def choices(self, changelist: Any) -> Iterable[dict[str, Any]]:  # type: ignore[override]
        """The newest are what is shown without a choice."""
        offered: list[Any] = list(super().choices(changelist))
        return [{**offered[0], "display": f"The newest {NEWEST}"}, *offered[1:]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Cut at the moment of the oldest row that is shown."""
        chosen = self.value()
        if chosen in _DAYS:
            return queryset.filter(**{f"{self.moment}__gte": timezone.now() - timedelta(days=_DAYS[chosen])})
        if chosen == _WHOLE or request.GET.get("q"):
            return queryset
        every = queryset.model._default_manager  # noqa: SLF001 - Django's name for it
        moments = every.order_by(f"-{self.moment}").values_list(self.moment, flat=True)
        oldest = next(iter(moments[NEWEST - 1 : NEWEST]), None)
        return queryset if oldest is None else queryset.filter(**{f"{self.moment}__gte": oldest})


class Created(Period):
    moment = "created_at"


class _Named(admin.SimpleListFilter):
    """A filter whose values are known without asking the table; `column` is what it compares."""

    column = ""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002 - Django's
        return queryset.filter(**{self.column: self.value()}) if self.value() else queryset


class ProblemFilter(_Named):
    title = parameter_name = column = "problem"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002 - Django's
        return [(problem.slug, f"{problem.number} {problem.slug}") for problem in registry.problems()]


class SubmissionProblemFilter(ProblemFilter):
    column = "submission__problem"


class ProfileFilter(_Named):
    title = parameter_name = column = "profile"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002 - Django's
        return [(name, name) for name in profiles()]


class LargeList(admin.ModelAdmin):  # type: ignore[type-arg]
    """A list that opens at once however long the table is, and is searched by what an index finds.

    Attributes:
        ids: the columns that hold identifiers, found by a whole one.
        author_column: the column with the author, found by the beginning of a name.
        problem_column: the column with the problem's slug, found by the whole of it.
    """

    class Media:
        css = {"all": ("css/admin.css",)}

    show_full_result_count = False
    paginator = CappedPaginator
    list_per_page = 25  # Django's admin takes about a millisecond for a row
    list_max_show_all = 50
    search_fields = ("id",)
    search_help_text = "An identifier, a problem's short name, or the beginning of an author's name."
    ids: tuple[str, ...] = ("pk",)
    author_column = ""
    problem_column = ""

    @admin.display(ordering="id")
    def short(self, row: Any) -> str:
        """The beginning of its identifier."""
        return str(row.pk)[:8]

    def action_checkbox(self, obj: Any) -> SafeString:
        """Django's column, without a template for each row."""
        return format_html(
            '<input type="checkbox" name="{}" value="{}" class="action-select" '
            'aria-label="Select this object for an action - {}">',
            helpers.ACTION_CHECKBOX_NAME,
            obj.pk,
            obj,
        )

    action_checkbox.short_description = mark_safe(  # type: ignore[attr-defined] # as Django's own column has it
        '<input type="checkbox" id="action-toggle" aria-label="Select all objects on this page for an action">'
    )

    def get_search_results(
        self,
        request: HttpRequest,  # noqa: ARG002 - Django's signature
        queryset: QuerySet[Any],
        search_term: str,
    ) -> tuple[QuerySet[Any], bool]:
        for word in search_term.split():
            queryset = queryset.filter(self._named(word))
        return queryset, False

    def _named(self, word: str) -> Q:
        if (key := uuid_of(word)) is not None:
            return Q(*((column, key) for column in self.ids), _connector=Q.OR)
        if word in {problem.slug for problem in registry.problems()}:
            return Q(**{self.problem_column: word})
        authors = User.objects.filter(username__istartswith=word).values_list("pk", flat=True)
        return Q(**{f"{self.author_column}__in": list(authors[:_AUTHORS])})
