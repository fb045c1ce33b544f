"""What `make run` says when it cannot start: one clear sentence, and nothing written."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def serve(data_dir: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the embedded installation in a folder of its own until it ends by itself."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PKB_", "DJANGO_"))}
    return subprocess.run(
        [sys.executable, ROOT / "deploy" / "serve.py"],
        env=environment | {"PKB_DATA_DIR": str(data_dir), **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_taken_port_is_named_before_anything_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = serve(tmp_path, PORT=str(port))

    assert ended.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port} (Address already in use)" in ended.stdout
    assert f"PORT={port + 1} make run" in ended.stdout
    assert not (tmp_path / "env").exists()


def test_nobody_else_on_the_machine_reads_the_sites_data(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        serve(tmp_path, PORT=str(taken.getsockname()[1]))
    for path in (tmp_path, tmp_path / "run", tmp_path / "run" / "lock"):
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize("port", ["eighty", "0", "65536", "-1"])
def test_a_port_that_is_none_is_refused(tmp_path: Path, port: str) -> None:
    ended = serve(tmp_path, PORT=port)

    assert ended.returncode == 1
    assert ended.stdout == f"PORT={port} is not a port number; give one between 1 and 65535\n"
    assert ended.stderr == ""


ADOPTS = """
import ctypes, os, subprocess, sys
sys.path.insert(0, sys.argv[1])
import serve
ctypes.CDLL(None).prctl(36, 1)
with subprocess.Popen(["sh", "-c", "(true &); sleep 5"]) as supervisor:
    serve.wait_for_end(supervisor)
    print(supervisor.returncode)
try:
    print(os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("nobody is left")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux only")
def test_orphans_of_the_site_are_waited_for_while_it_runs() -> None:
    command = [sys.executable, "-c", ADOPTS, str(ROOT / "deploy")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "0\nnobody is left\n"
