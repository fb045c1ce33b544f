"""Fixtures that every part of the tests may use, and the choice of one problem's tests."""

import hypothesis
import pytest
from django.conf import settings

from problems import registry
from tests.stack import stack  # noqa: F401 - a fixture for all

# A machine that does other work besides is slow in drawing values, which says nothing of the values.
hypothesis.settings.register_profile("any load", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("any load")


@pytest.fixture(scope="session")
def django_db_modify_db_settings():
    """A file, not memory: SQLite in memory never waits for locks, so threads would not compete as processes do."""
    database = settings.DATABASES["default"]
    if database["ENGINE"].endswith("sqlite3"):
        database.setdefault("TEST", {})["NAME"] = str(settings.DATA_DIR / "test.sqlite3")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--problem", type=int, metavar="N", help="only the tests that are about problem number N")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    number = config.getoption("--problem")
    if number is None:
        return
    slugs = {problem.number: problem.slug for problem in registry.problems()}
    if number not in slugs:
        raise pytest.UsageError(f"there is no problem {number}; there are {', '.join(map(str, sorted(slugs)))}")
    chosen = [item for item in items if _slug(item) == slugs[number]]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


def _slug(item: pytest.Item) -> str | None:
    """The problem that a parametrised test is about."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    problem = parameters.get("problem")
    return parameters.get("slug") or getattr(problem, "slug", None)
