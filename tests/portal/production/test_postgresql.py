"""What the actions promise when two run at once, on PostgreSQL: rows are locked there, and no transaction sees a
half."""

import os
import subprocess
import sys

import pytest

from tests.portal.production.conftest import ROOT

pytestmark = pytest.mark.production


def assert_tests_pass_on(postgres, name: str, *arguments: str) -> None:
    """Run other tests of the site in a process of their own, with PostgreSQL instead of SQLite."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env=os.environ | {"PKB_DATABASE_URL": postgres.create_database(name)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    assert "passed" in done.stdout


def test_races_end_on_postgresql_as_they_do_on_sqlite(postgres):
    assert_tests_pass_on(postgres, "races", "tests/portal/test_races.py", "tests/portal/test_reports.py")


@pytest.mark.slow
@pytest.mark.timeout(7200)  # more than 1,800 s at a load of 10 to 25
def test_the_whole_site_works_on_postgresql(postgres):
    leave_out = ["--ignore=tests/portal/production", "--deselect=tests/portal/test_faults.py"]
    assert_tests_pass_on(postgres, "whole", "tests/portal", "-m", "not slow and not browser", *leave_out)
