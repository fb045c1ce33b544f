"""Fixtures that every part of the tests may use."""

import hypothesis
import pytest
from django.conf import settings

from tests.stack import stack  # noqa: F401 - a fixture for all

pytest_plugins = ["tests.tiers"]

# A machine that does other work besides is slow in drawing values, which says nothing of the values.
hypothesis.settings.register_profile("any load", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("any load")


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix):
    """A file, not memory: SQLite in memory never waits for locks, so threads would not compete as processes do.

    Each worker of a parallel run has a data folder of its own (tests/settings.py), and so a file of its own.
    """
    database = settings.DATABASES["default"]
    if database["ENGINE"].endswith("sqlite3"):
        database.setdefault("TEST", {})["NAME"] = str(settings.DATA_DIR / "test.sqlite3")
