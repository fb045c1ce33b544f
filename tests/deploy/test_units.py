"""The systemd units leave their programs what these need."""

from pathlib import Path

from evaluator.host.sandbox import host_users

UNITS = Path(__file__).resolve().parents[2] / "deploy" / "systemd"


def test_a_node_that_root_starts_may_lock_the_users_of_its_sandboxes():
    drop_in = (UNITS / "pkb-node@.service.d" / "own-users.conf").read_text()

    assert f"ReadWritePaths={host_users._LOCKS}" in drop_in.splitlines()  # noqa: SLF001 - the folder the unit opens
