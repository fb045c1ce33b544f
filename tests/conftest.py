"""Fixtures that every part of the tests may use."""

import pytest
from django.conf import settings

from tests.stack import stack  # noqa: F401 - a fixture for all


@pytest.fixture(scope="session")
def django_db_modify_db_settings():
    """A file, not memory: SQLite in memory knows no waiting for locks, so threads would not meet as processes do."""
    database = settings.DATABASES["default"]
    if database["ENGINE"].endswith("sqlite3"):
        database.setdefault("TEST", {})["NAME"] = str(settings.DATA_DIR / "test.sqlite3")
