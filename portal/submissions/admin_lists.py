"""Operators' lists over tables of millions of rows: the newest first, and every choice beside them is quick.

A list shows the newest `NEWEST` rows until the operator asks for all of them or searches; so each facet, and any of
them together, reads a few thousand rows. Choices come from the code and are not collected from the table.
"""

import uuid
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from evaluator.hardware.profiles import profiles
from portal.accounts.models import User
from portal.bounded import BoundedPaginator
from problems import registry

NEWEST = 2000
_WHOLE = "all"
_DAYS = {"day": 1, "week": 7, "month": 30}


class Period(admin.SimpleListFilter):
    """The newest rows, those of some days, or all. A search is in all."""

    title = "period"
    parameter_name = "period"
    moment = "queued_at"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        """What can be chosen beside the newest."""
        return [*((name, f"The last {name}") for name in _DAYS), (_WHOLE, "From the beginning (slow)")]

    def choices(self, changelist: Any) -> Iterable[dict[str, Any]]:  # type: ignore[override]
        """The newest are what is shown without a choice."""
        first, *others = super().choices(changelist)
        return [{**first, "display": f"The newest {NEWEST}"}, *others]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Cut at the moment of the oldest row that is shown."""
        chosen = self.value()
        if chosen in _DAYS:
            return queryset.filter(**{f"{self.moment}__gte": timezone.now() - timedelta(days=_DAYS[chosen])})
        if chosen == _WHOLE or request.GET.get("q"):
            return queryset
        moments = queryset.model._default_manager.order_by(f"-{self.moment}").values_list(self.moment, flat=True)  # noqa: SLF001 - Django's name for it
        oldest = next(iter(moments[NEWEST - 1 : NEWEST]), None)
        return queryset if oldest is None else queryset.filter(**{f"{self.moment}__gte": oldest})


class Created(Period):
    """The same by the moment of submission."""

    moment = "created_at"


class ByProfile(admin.SimpleListFilter):
    """Profiles as the code has them."""

    title = "profile"
    parameter_name = "profile"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        """Every profile."""
        return [(name, name) for name in profiles()]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Those of the one that is chosen."""
        return queryset.filter(profile=self.value()) if self.value() else queryset


class ByProblem(admin.SimpleListFilter):
    """Problems as the catalogue has them."""

    title = "problem"
    parameter_name = "problem"
    field = "problem"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        """Every problem."""
        return [(problem.slug, f"{problem.number:02d} {problem.title}") for problem in registry.problems()]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Those of the one that is chosen."""
        return queryset.filter(**{self.field: self.value()}) if self.value() else queryset


class ByProblemOfSubmission(ByProblem):
    """The same through the submission."""

    field = "submission__problem"


class _Rows(BoundedPaginator):
    most = 2 * NEWEST


class LargeTable(admin.ModelAdmin):  # type: ignore[type-arg]
    """A list that counts no more rows than it offers, and finds what is asked for by an index.

    `found_by_id` and `found_by_author` name the columns in which a search looks for an identifier and for an author's
    name.
    """

    paginator = _Rows
    show_full_result_count = False
    search_help_text = "An identifier, or an author's whole name."
    search_fields = ("pk",)  # what shows the box; `get_search_results` looks
    found_by_id: ClassVar[Sequence[str]] = ("pk",)
    found_by_author: ClassVar[str] = ""

    def get_search_results(
        self, _request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """The rows that an identifier or an author's name stands for; nothing for any other word."""
        term = search_term.strip()
        if not term:
            return queryset, False
        try:
            wanted = uuid.UUID(term)
        except ValueError:
            return self._of_author(queryset, term), False
        found = Q()
        for name in self.found_by_id:
            found |= Q(**{name: wanted})
        return queryset.filter(found), False

    def _of_author(self, queryset: QuerySet[Any], name: str) -> QuerySet[Model]:
        person = User.objects.filter(username=name).only("pk").first()
        if not self.found_by_author or person is None:
            return queryset.none()
        return queryset.filter(**{self.found_by_author: person})
