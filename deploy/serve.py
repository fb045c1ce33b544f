"""The embedded installation: prepare what is missing in `var/`, run every process, say when the site answers.

Called by `make run` inside `.venv`. Ctrl-C ends everything, ranks of a running evaluation included: whatever
supervisord's processes leave behind becomes a child of this one and is killed before it ends.
"""

import ctypes
import fcntl
import hashlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TextIO

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 90
STOP_SECONDS = 30
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class StartFailure(Exception):
    """The site cannot start; the message says why and what to do."""


class Stopped(Exception):
    """Somebody asked us to end: Ctrl-C or a signal."""


def main() -> int:
    """Prepare, start, announce, wait; return 0 after an ordinary end and 1 when the site could not start."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        host, port = address()
        data_dir = Path(os.environ.get("PKB_DATA_DIR", ROOT / "var"))
        with only_one(data_dir):
            refuse_taken_port(host, port)
            set_environment(host, port, data_dir)
            prepare(data_dir)
            with processes(data_dir) as supervisor:
                wait_until_ready(host, port, data_dir, supervisor)
                announce(data_dir)
                wait_for_end(supervisor)
        say(f"supervisord ended by itself; see {data_dir / 'log' / 'supervisord.log'}")
    except StartFailure as failure:
        say(str(failure))
    except Stopped:
        say("stopped")
        return 0
    return 1


def say(text: str) -> None:
    """Print a line for the person at the terminal, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def address() -> tuple[str, int]:
    """HOST and PORT from the environment.

    Raises:
        StartFailure: PORT is no port number.
    """
    port = os.environ.get("PORT") or "8000"
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise StartFailure(f"PORT={port} is not a port number; give one between 1 and 65535")
    return os.environ.get("HOST") or "127.0.0.1", int(port)


@contextmanager
def only_one(data_dir: Path) -> Iterator[None]:
    """Hold the lock of this installation's data, which nobody else on the machine may read: its sessions sign in.

    Raises:
        StartFailure: another `make run` holds it, or the folder is not ours.
    """
    os.umask(0o077)
    try:
        (data_dir / "run").mkdir(parents=True, exist_ok=True)
        data_dir.chmod(0o700)
    except OSError as error:
        raise StartFailure(f"{data_dir} cannot be made private ({error.strerror}); it must belong to you") from error
    with (data_dir / "run" / "lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise StartFailure(f"already running here ({lock.read().strip()}); end that one first") from None
        _write_holder(lock)
        yield


def _write_holder(lock: TextIO) -> None:
    lock.truncate(0)
    lock.write(f"process {os.getpid()}")
    lock.flush()


def refuse_taken_port(host: str, port: int) -> None:
    """Find out before anything starts whether the address is free.

    Raises:
        StartFailure: it is in use, or not an address of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            hint = f"another program may be using it; choose another port: PORT={port + 1} make run"
            raise StartFailure(f"cannot listen on {host}:{port} ({error.strerror}); {hint}") from error


def set_environment(host: str, port: int, data_dir: Path) -> None:
    """Everything that the processes take from the environment; what the caller has set stays."""
    bind = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    names = ["127.0.0.1", "localhost", "[::1]", host, socket.gethostname()]
    os.environ.setdefault("PKB_DATA_DIR", str(data_dir))
    os.environ.setdefault("PKB_SITE_URL", f"http://{reachable(host)}:{port}")
    os.environ.setdefault("PKB_ALLOWED_HOSTS", ",".join(dict.fromkeys(names)))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    os.environ |= {
        "PKB_ROOT": str(ROOT),
        "PKB_PYTHON": sys.executable,
        "PKB_BIND": bind,
        "PKB_LOG_DIR": str(data_dir / "log"),
        "PKB_RUN_DIR": str(data_dir / "run"),
        "PYTHONUNBUFFERED": "1",
    }


def prepare(data_dir: Path) -> None:
    """Make the secret, the tables, the collected assets, the operator and the local node, where they are missing.

    Raises:
        StartFailure: the database or a folder refuses.
    """
    (data_dir / "log").mkdir(parents=True, exist_ok=True)
    write_secret(data_dir / "env")
    sys.path.insert(0, str(ROOT))
    check_machines()
    import django  # reads the settings, which need the secret
    from django.core.management import CommandError, call_command
    from django.db import DatabaseError

    django.setup()
    try:
        call_command("migrate", verbosity=0, interactive=False)
        call_command("rebuild_standings", if_needed=True)
        collect_assets(data_dir)
        call_command("bootstrap")
        call_command("recorded")
    except (CommandError, DatabaseError) as error:
        raise StartFailure(f"the site's data cannot be prepared in {data_dir}: {error}") from error
    check_node()


def check_machines() -> None:
    """Read the machine files of the installation.

    Raises:
        StartFailure: one is wrong.
    """
    from evaluator.hardware import profiles
    from evaluator.hardware.machines import MachineFileError

    try:
        profiles.profiles()
    except MachineFileError as error:
        raise StartFailure(str(error)) from error


def check_node() -> None:
    """Read the node's settings as it will, before anything starts.

    Raises:
        StartFailure: one is wrong, or a submission would run without a sandbox where others can send one.
    """
    from evaluator.node.settings import Misconfigured, NodeSettings

    try:
        NodeSettings.from_environment(os.environ)
    except Misconfigured as error:
        raise StartFailure(str(error)) from error


def write_secret(path: Path) -> None:
    """Put a fresh secret into `var/env`, readable by its owner alone, unless there is one."""
    path.touch(mode=0o600)
    if os.environ.get("PKB_SECRET_KEY") or "PKB_SECRET_KEY=" in path.read_text():
        return
    with path.open("a") as file:
        file.write(f"PKB_SECRET_KEY={secrets.token_urlsafe(48)}\n")


def collect_assets(data_dir: Path) -> None:
    """Collect static files again only after one of them or the requirements changed."""
    from django.core.management import call_command

    served = [path for folder in ("css", "js", "vendor") for path in sorted((ROOT / "static" / folder).rglob("*"))]
    sources = [*served, ROOT / "requirements.txt"]
    facts = [f"{path.relative_to(ROOT)} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in sources]
    wanted = hashlib.sha256("\n".join(facts).encode()).hexdigest()
    stamp = data_dir / "run" / "assets.stamp"
    if stamp.is_file() and stamp.read_text() == wanted and (data_dir / "static").is_dir():
        return
    call_command("collectstatic", verbosity=0, interactive=False)
    stamp.write_text(wanted)


@contextmanager
def processes(data_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run supervisord; at the end stop it and kill every process that is left of it."""
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
    if libc:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)

    def die_with_parent() -> None:
        if libc:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    (data_dir / "log" / "supervisord.log").unlink(missing_ok=True)
    # A session of its own: Ctrl-C reaches this process alone, which then stops the others in order.
    supervisor = subprocess.Popen(
        [sys.executable, "-m", "supervisor.supervisord", "-c", str(ROOT / "deploy" / "supervisord.conf")],
        cwd=ROOT,
        start_new_session=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509  (no threads here)
    )
    try:
        yield supervisor
    finally:
        _ignore_further_signals()
        supervisor.terminate()
        try:
            supervisor.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            supervisor.kill()
            supervisor.wait()
        kill_what_is_left()
        (data_dir / "run" / "supervisord.pid").unlink(missing_ok=True)


def wait_for_end(supervisor: subprocess.Popen[bytes]) -> None:
    """Return when supervisord ends. Orphans become this process's children: each is waited for when it ends.

    Otherwise it would stay in the list of processes, and a node would take a dead rank for one that refuses to go.
    """
    while sys.platform == "linux":
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        if ended is None or ended.si_pid == supervisor.pid:
            break
        os.waitpid(ended.si_pid, 0)
    supervisor.wait()


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise Stopped


def _ignore_further_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def kill_what_is_left() -> None:
    """Kill our remaining descendants: orphans have become children of this process, again and again until none."""
    while children := _children():
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        for pid in children:
            os.waitpid(pid, 0)


def _children() -> list[int]:
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    return [int(pid) for pid in listed.read_text().split()] if listed.is_file() else []


def wait_until_ready(host: str, port: int, data_dir: Path, supervisor: subprocess.Popen[bytes]) -> None:
    """Wait for /readyz and for a node; with patience for its slots, which then have examined the sandbox.

    Raises:
        StartFailure: a process does not stay up, or the time is over.
    """
    started_at = datetime.now(tz=UTC)
    deadline = time.monotonic() + START_SECONDS
    log = data_dir / "log" / "supervisord.log"
    while time.monotonic() < deadline:
        if answers(host, port) and has_node(started_at, is_ready=True):
            return
        if supervisor.poll() is not None:
            raise StartFailure(f"supervisord ended; see {log}")
        if failed := given_up(log):
            raise StartFailure(f"{failed} does not start; its last lines:\n{tail(data_dir / 'log' / f'{failed}.log')}")
        time.sleep(0.2)
    if answers(host, port) and has_node(started_at):
        return
    missing = "the node sends no heartbeat" if answers(host, port) else "/readyz does not answer"
    raise StartFailure(f"not ready after {START_SECONDS} s: {missing}; see the logs in {log.parent}")


def answers(host: str, port: int) -> bool:
    """Whether /readyz answers with success."""
    try:
        with urllib.request.urlopen(f"http://{reachable(host)}:{port}/readyz", timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def reachable(host: str) -> str:
    """How this machine reaches what listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104


def has_node(started_at: datetime, *, is_ready: bool = False) -> bool:
    """Whether a node has been heard since then, with slots that have started where it has to be ready."""
    from evaluator.contract import SlotState  # after django.setup
    from portal.nodes.models import Slot

    slots = Slot.objects.filter(node__seen_at__gte=started_at)
    return slots.exists() and not (is_ready and slots.filter(state=SlotState.STARTING).exists())


def sandbox_words() -> str:
    """How submissions are confined here, or why nothing is judged."""
    from evaluator.contract import SandboxLevel, SlotState  # after django.setup
    from portal.nodes.models import Slot

    slot = Slot.objects.select_related("node").order_by("-node__seen_at", "index").first()
    if slot is None or slot.state == SlotState.QUARANTINED:
        return f"The node takes no work: {slot.note if slot else 'it has no slot'}"
    if slot.state == SlotState.STARTING:
        return "The node is still starting; /nodes/ shows when it judges."
    if slot.node.sandbox == SandboxLevel.NONE:
        return (
            "Sandbox: NONE. Submissions run as another user of this machine and can harm it: judge your own code only."
        )
    return f"Sandbox: {slot.node.sandbox} (what that means: `python -m evaluator doctor`)"


def judged_words() -> str:
    """What is judged here: the best that this machine can, or what PKB_NODE_PROFILES names."""
    from evaluator.host import best_profile
    from evaluator.node.settings import NodeSettings

    chosen, best = NodeSettings.from_environment(os.environ).profiles, best_profile.here()
    if best.profile in chosen:
        return best.words
    return f"Judged here, by PKB_NODE_PROFILES: {', '.join(chosen)}."


def given_up(log: Path) -> str | None:
    """The first process that supervisord has given up on; its log begins anew with every run."""
    for line in log.read_text().splitlines() if log.exists() else ():
        if "gave up:" in line:
            return line.split("gave up:")[1].split()[0]
    return None


def tail(path: Path) -> str:
    """The last lines of a log."""
    return "\n".join(path.read_text(errors="replace").splitlines()[-15:]) if path.exists() else "(no log)"


def announce(data_dir: Path) -> None:
    """Say where the site is and how to sign in."""
    say("")
    say(f"  ParallelKernelBench is at {os.environ['PKB_SITE_URL']}/")
    from django.conf import settings  # after django.setup

    who = "anybody can sign up" if settings.SIGN_UP == "open" else "sign-up is closed"
    say(f"  Operator account: name and password are in {data_dir / 'operator.txt'}; {who}.")
    say(f"  {sandbox_words()}")
    say(f"  {judged_words()}")
    say(f"  Logs: {data_dir / 'log'}   Stop: Ctrl-C")
    say("")


if __name__ == "__main__":
    sys.exit(main())
