"""Statements that Django makes once and every call executes with its own values.

To make a statement from a query takes Django 0.3 to 4 ms of a processor, many times what its execution takes. So what
every submission reads is kept (docs/decisions/0062-statements-made-once.md). The query is still written with Django.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db import connection
from django.db.models import AutoField, Expression, Field, Model, QuerySet
from django.db.models.constants import OnConflict
from django.db.models.sql import InsertQuery
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

    def bound(self, values: Mapping[str, Any]) -> Any:
        """The value of this call, as the database takes it."""
        return self.output_field.get_db_prep_value(values[self.name], connection=connection)


@dataclass(frozen=True, kw_only=True)
class _Made:
    """What Django made of a query: its words, its parameters, and what turns a row of the database into values."""

    compiler: SQLCompiler
    sql: str
    parameters: tuple[Any, ...]
    converters: dict[int, Any]

    def bound(self, values: Mapping[str, Any]) -> list[Any]:
        """The parameters of a call."""
        return [each.bound(values) if isinstance(each, Given) else each for each in self.parameters]

    def converted(self, rows: Iterable[Sequence[Any]]) -> list[Any]:
        """The rows as tuples of values."""
        return [tuple(row) for row in self.compiler.apply_converters(rows, self.converters)]


class KeptStatement:
    """What `query` reads, as one statement; `query` is a `values_list` with `Given` where the values differ.

    Not for `None`: Django writes a comparison with it in other words.
    """

    def __init__(self, query: Callable[[], QuerySet[Any, Any]]) -> None:
        self._query = query
        # By the kind of database, and not when the module is imported: models have to be loaded first.
        self._made = cache(self._make)

    def _make(self, _vendor: str) -> _Made:
        compiler = self._query().query.get_compiler(connection=connection)
        sql, parameters = compiler.as_sql()
        converters = compiler.get_converters([column for column, *_ in compiler.select])
        return _Made(compiler=compiler, sql=sql, parameters=tuple(parameters), converters=converters)

    def rows(self, **values: Any) -> list[Any]:
        """Every row as a tuple, for these values of what is `Given`."""
        made = self._made(connection.vendor)
        with connection.cursor() as cursor:
            cursor.execute(made.sql, made.bound(values))
            return made.converted(cursor.fetchall())

    def rows_of_each(self, calls: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
        """The rows of several calls in their order, all in one statement."""
        if not calls:
            return []
        made = self._made(connection.vendor)
        part = f"SELECT %s AS a_call, a_row.* FROM ({made.sql}) AS a_row"  # noqa: S608 - Django's own SQL
        found: list[list[Any]] = [[] for _ in calls]
        with connection.cursor() as cursor:
            parameters = [each for number, call in enumerate(calls) for each in (number, *made.bound(call))]
            cursor.execute(" UNION ALL ".join(part for _ in calls), parameters)
            for number, *row in cursor.fetchall():
                found[number].append(row)
        return [made.converted(rows) for rows in found]

    def row(self, **values: Any) -> Any:
        """The first row, None where there is none."""
        return next(iter(self.rows(**values)), None)


class KeptInsert:
    """The statement that stores a row of `model`; signals of Django are not sent.

    With `unless_there` a row that a constraint forbids is left out instead.
    """

    def __init__(self, model: type[Model], *, unless_there: bool = False) -> None:
        options = model._meta  # noqa: SLF001 - Django's name for it
        self._model = model
        self._key = options.pk
        self._fields = [field for field in options.concrete_fields if not isinstance(field, AutoField)]
        self._on_conflict = OnConflict.IGNORE if unless_there else None
        self._made = cache(self._make)

    def _make(self, _vendor: str) -> str:
        query = InsertQuery(self._model, on_conflict=self._on_conflict)
        query.insert_values(self._fields, [self._model()])
        compiler = query.get_compiler(connection=connection)
        compiler.returning_fields = [self._key]
        [(sql, _)] = compiler.as_sql()
        return str(sql)

    def store(self, row: Model) -> bool:
        """Store `row`, which then has its key; False where `unless_there` left it out."""
        values = (field.get_db_prep_save(field.pre_save(row, add=True), connection) for field in self._fields)
        with connection.cursor() as cursor:
            cursor.execute(self._made(connection.vendor), list(values))
            stored = cursor.fetchone()
        if stored is None:
            return False
        if isinstance(self._key, AutoField):
            row.pk = stored[0]
        row._state.adding = False  # noqa: SLF001 - as Django's own `save` does
        row._state.db = connection.alias  # noqa: SLF001
        return True
