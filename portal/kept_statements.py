"""Statements that Django makes once and every call executes with its own values.

To make a statement from a query takes Django 0.3 to 4 ms of a processor, many times what its execution takes. So what
every submission reads is kept (docs/decisions/0062-statements-made-once.md). The query is still written with Django.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from django.db import connection
from django.db.models import Expression, Field, QuerySet
from django.db.models.sql.compiler import SQLCompiler


class Given(Expression):
    """The value called `name`, of the kind of `field`, in a kept statement: each call brings it."""

    def __init__(self, name: str, field: "Field[Any, Any]") -> None:
        super().__init__(output_field=field)
        self.name = name

    def as_sql(  # type: ignore[override]  # the parameter is this object until a call binds it
        self,
        compiler: SQLCompiler,  # noqa: ARG002 - Django's signature
        connection: Any,  # noqa: ARG002
    ) -> tuple[str, list[Any]]:
        """A placeholder, and this object as its parameter."""
        return "%s", [self]

    def bound(self, values: dict[str, Any]) -> Any:
        """The value of this call, as the database takes it."""
        return self.output_field.get_db_prep_value(values[self.name], connection=connection)


class KeptStatement:
    """What `query` reads, as one statement; `query` is a `values_list` with `Given` where the values differ.

    Not for `None`: Django writes a comparison with it in other words.
    """

    def __init__(self, query: Callable[[], QuerySet[Any, Any]]) -> None:
        self._query = query
        # By the kind of database, and not when the module is imported: models have to be loaded first.
        self._made = cache(self._make)

    def _make(self, _vendor: str) -> tuple[SQLCompiler, str, tuple[Any, ...]]:
        compiler = self._query().query.get_compiler(connection=connection)
        sql, parameters = compiler.as_sql()
        return compiler, sql, tuple(parameters)

    def rows(self, **values: Any) -> list[Any]:
        """Every row as a tuple, for these values of what is `Given`."""
        compiler, sql, parameters = self._made(connection.vendor)
        with connection.cursor() as cursor:
            cursor.execute(sql, [each.bound(values) if isinstance(each, Given) else each for each in parameters])
            return list(compiler.results_iter([cursor.fetchall()], tuple_expected=True))

    def row(self, **values: Any) -> Any:
        """The first row, None where there is none."""
        return next(iter(self.rows(**values)), None)
