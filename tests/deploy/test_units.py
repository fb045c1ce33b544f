"""The systemd units leave their programs what these need, and an operator's command gets what the units have."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from evaluator.host.sandbox import slot_claims

ROOT = Path(__file__).resolve().parents[2]
UNITS = ROOT / "deploy" / "systemd"


def test_a_node_that_root_starts_may_lock_the_users_of_its_sandboxes():
    drop_in = (UNITS / "pkb-node@.service.d" / "own-users.conf").read_text()

    assert f"ReadWritePaths={slot_claims._LOCKS}" in drop_in.splitlines()  # noqa: SLF001 - the folder the unit opens


@pytest.mark.parametrize("unit", ["pkb-web.service", "pkb-node@.service"])
def test_a_stop_lets_the_first_process_end_its_children(unit):
    assert "KillMode=mixed" in (UNITS / unit).read_text().splitlines()


def test_a_long_migration_is_not_ended_by_the_unit_that_runs_it():
    lines = (UNITS / "pkb-web.service").read_text().splitlines()

    assert any(line.startswith("ExecStartPre=") and "prepare" in line for line in lines)
    assert "TimeoutStartSec=30min" in lines  # systemd's own limit is 90 s, and Restart=always begins again


SETTINGS = """# comment
PKB_SECRET_KEY=a$b'c
PKB_EMAIL_FROM=A Site <pkb@example.org>
PKB_SITE_URL="https://pkb.example.org"
#PKB_SIGN_UP=closed
PKB_LOG_FORMAT=text
PKB_OIDC_LAB_NAME=Lab=1"""


def as_site(folder, *arguments, **environment):
    """Run deploy/as-site.sh of a checkout in `folder` that has the interpreter of these tests."""
    (folder / "deploy").mkdir(exist_ok=True)
    script = folder / "deploy" / "as-site.sh"
    script.write_text((ROOT / "deploy" / "as-site.sh").read_text())
    (folder / ".venv" / "bin").mkdir(parents=True, exist_ok=True)
    python = folder / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PKB_")}
    return subprocess.run(
        ["sh", script, *arguments],
        env=bare | {"PKB_SITE_ENV": str(folder / "site.env"), "PKB_SITE_USER": "root"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_command_of_the_operator_gets_the_settings_of_the_units(tmp_path):
    (tmp_path / "site.env").write_text(SETTINGS)
    program = "import os; print({k: v for k, v in os.environ.items() if k.startswith('PKB_')}, os.getcwd())"
    done = as_site(tmp_path, "-c", program, PKB_LOG_FORMAT="json")

    assert done.returncode == 0, done.stderr
    for name, value in (
        ("PKB_SECRET_KEY", "a$b'c"),
        ("PKB_EMAIL_FROM", "A Site <pkb@example.org>"),
        ("PKB_SITE_URL", "https://pkb.example.org"),
        ("PKB_LOG_FORMAT", "json"),  # what the operator says goes first
        ("PKB_OIDC_LAB_NAME", "Lab=1"),
        ("PKB_DATA_DIR", "/var/lib/pkb"),
    ):
        assert f"{name!r}: {value!r}" in done.stdout
    assert "PKB_SIGN_UP" not in done.stdout
    assert done.stdout.strip().endswith(str(tmp_path))


def test_a_command_of_the_operator_says_what_it_lacks(tmp_path):
    refused = as_site(tmp_path, "manage.py", "check")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"{tmp_path}/site.env is missing" in refused.stderr
    assert as_site(tmp_path).returncode == 2
