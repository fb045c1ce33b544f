"""Lists of the admin over tables with millions of rows: no count of them all, no values gathered from them all."""

import uuid
from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

from evaluator.hardware.profiles import profiles
from portal.accounts.models import User
from problems import registry

COUNTED = 10_000
"""So many rows are counted at most: who wants to see the ten-thousandth narrows the list."""
_AUTHORS = 50


class CappedPaginator(Paginator):  # type: ignore[type-arg]
    """Pages over the first `COUNTED` rows."""

    @cached_property
    def count(self) -> int:
        """How many rows there are, or `COUNTED` where there are more."""
        rows: Any = self.object_list
        return int(rows.order_by().values("pk")[:COUNTED].count())


class _Named(admin.SimpleListFilter):
    """A filter whose values are known without asking the table; `column` is what it compares."""

    column = ""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002 - Django's
        """The rows with the chosen value."""
        return queryset.filter(**{self.column: self.value()}) if self.value() else queryset


class ProblemFilter(_Named):
    """One problem."""

    title = parameter_name = column = "problem"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002 - Django's
        """Every problem by number."""
        return [(problem.slug, f"{problem.number} {problem.slug}") for problem in registry.problems()]


class SubmissionProblemFilter(ProblemFilter):
    """One problem, of the submission that is judged."""

    column = "submission__problem"


class ProfileFilter(_Named):
    """One profile."""

    title = parameter_name = column = "profile"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002 - Django's
        """Every profile."""
        return [(name, name) for name in profiles()]


class LargeList(admin.ModelAdmin):  # type: ignore[type-arg]
    """A list that opens at once however long the table is, and is searched by what an index finds.

    Attributes:
        ids: the columns that hold identifiers, found by a whole one.
        author_column: the column with the author, found by the beginning of a name.
        problem_column: the column with the problem's slug, found by the whole of it.
    """

    show_full_result_count = False
    paginator = CappedPaginator
    list_per_page = 50
    list_max_show_all = 50
    search_fields = ("id",)
    search_help_text = "An identifier, a problem's short name, or the beginning of an author's name."
    ids: tuple[str, ...] = ("pk",)
    author_column = ""
    problem_column = ""

    def get_search_results(
        self,
        request: HttpRequest,  # noqa: ARG002 - Django's signature
        queryset: QuerySet[Any],
        search_term: str,
    ) -> tuple[QuerySet[Any], bool]:
        """The rows that the words name."""
        for word in search_term.split():
            queryset = queryset.filter(self._named(word))
        return queryset, False

    def _named(self, word: str) -> Q:
        try:
            key = uuid.UUID(word)
        except ValueError:
            return self._by_words(word)
        found = Q()
        for column in self.ids:
            found |= Q(**{column: key})
        return found

    def _by_words(self, word: str) -> Q:
        if word in {problem.slug for problem in registry.problems()}:
            return Q(**{self.problem_column: word})
        authors = User.objects.filter(username__istartswith=word).values_list("pk", flat=True)
        return Q(**{f"{self.author_column}__in": list(authors[:_AUTHORS])})
