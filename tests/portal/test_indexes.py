"""The indexes in the database are those that the models name: a migration made and dropped them by hand."""

import pytest
from django.db import connection

from portal.accounts.models import User
from portal.submissions.models import Evaluation, Source, Submission
from portal.submissions.queries import own_submissions


@pytest.mark.django_db
@pytest.mark.parametrize("model", [Submission, Evaluation, Source])
def test_indexes_are_those_of_the_model(model):
    """Every submission writes to all of them, so none stays that no query uses."""
    described = model._meta  # noqa: SLF001 - Django documents it
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, described.db_table)
    present = {name: about["columns"] for name, about in found.items() if about["index"] and not about["unique"]}
    unique = [about["columns"] for about in found.values() if about["unique"]]
    for index in described.indexes:
        assert len(present.pop(index.name)) == len(index.fields)
    of_fields = [[field.column] for field in described.fields if field.db_index and not field.unique]
    assert sorted(present.values()) == sorted(of_fields)
    for constraint in described.constraints:
        if getattr(constraint, "fields", ()):
            assert [described.get_field(name).column for name in constraint.fields] in unique, constraint.name


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL sorts where there are few rows")
@pytest.mark.parametrize("problem", [None, "allreduce"])
def test_ones_own_submissions_are_not_sorted_to_show_the_newest(problem):
    plan = own_submissions(User(pk=1), problem=problem)[:25].explain()
    assert "USING INDEX newest_o" in plan
    assert "FOR ORDER BY" not in plan
