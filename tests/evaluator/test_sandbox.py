"""Programs that try to break out of the sandbox, judged by the real judge: nothing of it may succeed."""

import dataclasses
import json
import os
import platform
import re
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evaluator.contract import EvaluationReport, SandboxLevel, SourceBundle, SourceFile, Verdict
from evaluator.errors import EvaluatorError
from evaluator.hardware import profiles
from evaluator.host import Judge
from evaluator.host.sandbox import bubblewrap, cgroups, cpu_sets, doctor, seccomp
from evaluator.host.settings import DEFAULT_USERS
from tests.evaluator.conftest import SETTINGS
from tests.evaluator.judging_help import SUBMISSIONS, request_for, request_for_text

ROOT = Path(__file__).parents[2]
MEGABYTE = 1 << 20
SMALL = dataclasses.replace(
    SETTINGS,
    memory_bytes=2048 * MEGABYTE,
    temporary_bytes=64 * MEGABYTE,
    shared_memory_bytes=64 * MEGABYTE,
    processes=120,
    open_files=4096,
    # Using everything up takes a busy machine a minute and more.
    import_s=200.0,
    call_limit_s=60.0,
)


@pytest.fixture(scope="module")
def small_judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """A judge whose sandboxes are small, so that using them up is quick."""
    with Judge(dataclasses.replace(SMALL, work_dir=tmp_path_factory.mktemp("small"))) as judge:
        yield judge


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, object]]:
    """Things outside that a submission must not reach: a file, a process with a secret, sockets that listen."""
    folder = tmp_path_factory.mktemp("host")
    secret, abstract = secrets.token_hex(16), f"pkb-test-{secrets.token_hex(8)}"
    (folder / "secret").write_text(secret)
    (folder / "secret").chmod(0o644)
    environment = os.environ | {"HOST_SECRET": secret}
    waiting = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=environment)
    with (
        socket.create_server(("127.0.0.1", 0)) as port,
        socket.socket(socket.AF_UNIX) as named,
        socket.socket(socket.AF_UNIX) as nameless,
        waiting,
    ):
        named.bind(str(folder / "socket"))
        (folder / "socket").chmod(0o777)
        named.listen()
        nameless.bind(f"\0{abstract}")
        nameless.listen()
        yield {
            "secret": secret,
            "file": str(folder / "secret"),
            "socket": str(folder / "socket"),
            "abstract": abstract,
            "port": port.getsockname()[1],
            "pid": waiting.pid,
            "name": platform.node() or "no name",
        }
        waiting.kill()


def escapes(judge: Judge, host: dict[str, object]) -> EvaluationReport:
    known = host | {"work_dir": str(judge.settings.work_dir), "checkout": str(ROOT)}
    text = (SUBMISSIONS / "escapes.py").read_text(encoding="utf-8").replace("HOST = {}", f"HOST = {known!r}", 1)
    return judge.evaluate(request_for_text(text))


def test_no_way_out_of_the_sandbox(small_judge: Judge, host: dict[str, object]) -> None:
    """Twice, because the second evaluation must not find what the first one left."""
    for _ in range(2):
        report = escapes(small_judge, host)
        assert report.verdict is Verdict.PASSED, report.message
        outcomes = re.findall(r"^(\S+): (blocked|ALLOWED)(.*)$", report.ranks[0].log, flags=re.MULTILINE)
        assert [name for name, outcome, _ in outcomes if outcome != "blocked"] == [], report.ranks[0].log
        assert len(outcomes) > 110


@pytest.mark.slow
def test_using_everything_up_ends_at_a_limit_and_harms_nobody(small_judge: Judge) -> None:
    report = small_judge.evaluate(request_for("exhausts"))
    log = report.ranks[0].log
    outcomes = dict(re.findall(r"^([^:\n]+): (stopped|NOT STOPPED)", log, flags=re.MULTILINE))
    expected = {"/tmp", "/dev/shm", "one process's memory", "open files"}
    if cgroups.find().limits_hold:
        expected |= {"processes", "memory"}
    assert expected <= {name for name, outcome in outcomes.items() if outcome == "stopped"}, log
    assert "core file limit: 0" in log
    assert report.verdict is Verdict.PASSED, report.message
    assert small_judge.evaluate(request_for("correct")).verdict is Verdict.PASSED


FILLS_MEMORY = """import os

import torch.distributed as dist


def solution(tensor):
    files = []
    if dist.get_rank() == 1:
        while True:
            files.append(os.memfd_create("x"))
            os.write(files[-1], bytes(1 << 24))
    out = tensor.clone()
    dist.all_reduce(out)
    return out
"""


def test_memory_in_files_of_a_rank_is_its_sandboxs_and_the_author_reads_that_it_ran_out(small_judge: Judge) -> None:
    """The kernel takes long to free what a rank held: its channel is closed before anybody knows how it ended."""
    if not cgroups.find().limits_hold:
        pytest.skip("this machine gives sandboxes no memory limit of their own")
    report = small_judge.evaluate(request_for_text(FILLS_MEMORY))
    assert report.verdict is Verdict.OUT_OF_MEMORY, report.findings
    assert "no memory left" in report.message
    assert small_judge.evaluate(request_for("correct")).verdict is Verdict.PASSED


def test_sources_cannot_be_placed_outside_their_folder(small_judge: Judge) -> None:
    request = request_for("correct")
    outside = SourceFile(path="../../planted.py", text="x = 1\n")
    source = SourceBundle(files=(*request.source.files, outside))
    report = small_judge.evaluate(type(request)(**{**_fields(request), "source": source}))
    assert report.verdict is not Verdict.PASSED
    assert not list(Path(str(small_judge.settings.work_dir)).rglob("planted.py"))


def _fields(request: object) -> dict[str, object]:
    return {name: getattr(request, name) for name in request.__struct_fields__}  # type: ignore[attr-defined]


def test_a_call_that_libseccomp_does_not_know_is_never_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "REFUSED", (*seccomp.REFUSED, "no_such_call"))
    with pytest.raises(EvaluatorError, match="cannot refuse no_such_call here"):
        seccomp.open_program()


def test_full_is_what_a_machine_with_everything_reaches(small_judge: Judge) -> None:
    """Where the judge is root and may make groups, nothing is missing; elsewhere what is missing is named."""
    missing = {probe.name: probe.detail for probe in small_judge.confinement.probes if not probe.holds}
    assert (small_judge.confinement.level is SandboxLevel.FULL) == (not missing)
    assert all(missing.values()), missing
    if os.getuid() == 0 and cgroups.find().limits_hold:
        assert missing == {}


def test_ranks_belong_to_a_host_user_that_no_other_judge_has(small_judge: Judge, judge: Judge) -> None:
    if small_judge.confinement.level is not SandboxLevel.FULL:
        pytest.skip("this machine gives sandboxes no user of their own")
    # Both have a worker group waiting, or are starting one.
    deadline = time.monotonic() + 60
    while len(owners := set(_owners_of_launchers())) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert 0 not in owners
    assert len(owners) >= 2


def _owners_of_launchers() -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*"):
        try:
            program, *arguments = (path / "cmdline").read_text(errors="replace").split("\0")
            if program == sys.executable and any(text.endswith("arena/rank/launcher.py") for text in arguments):
                yield _owner(path)
        except OSError:
            continue


def _owner(path: Path) -> int:
    return int(re.search(r"^Uid:\s+(\d+)", (path / "status").read_text(errors="replace"), flags=re.MULTILINE)[1])  # type: ignore[index]


def test_doctor_names_every_property_and_its_exit_status_says_whether_ranked_work_is_possible() -> None:
    command = [sys.executable, "-m", "evaluator", "doctor", "--json", "--profile", "h100x4"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    found = json.loads(done.stdout)
    assert len(found["probes"]) >= 17
    assert found["demanded"] == "full"
    assert (done.returncode == 0) == (found["level"] == "full")
    reach = next(probe for probe in found["probes"] if "processors of the reference" in probe["name"])
    assert not reach["is_demanded"]
    assert reach["holds"] is not bool(reach["detail"])


def test_without_bubblewrap_nothing_is_judged_and_the_command_that_mends_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EvaluatorError, match=r"nothing is judged here.*apt-get install bubblewrap"):
        Judge(SMALL)
    done = subprocess.run(
        [sys.executable, "-m", "evaluator", "doctor"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "nothing is judged here; to mend it: apt-get install bubblewrap" in done.stdout


PEEKS = """import os

import torch.distributed as dist


def solution(tensor):
    try:
        read = open({path!r}).read()
    except OSError as error:
        read = type(error).__name__
    print(os.getuid(), os.getgroups(), read, [name for name in os.environ if "KEY" in name], flush=True)
    out = tensor.clone()
    dist.all_reduce(out)
    return out
"""
JUDGES = """import dataclasses, sys
from evaluator.host import Judge
from evaluator.host.settings import SandboxChoice
from tests.evaluator.conftest import SETTINGS
from tests.evaluator.judging_help import request_for_text

allowed = {"sandbox": SandboxChoice.NONE, "allow_unsandboxed": True, "other_user": True}
with Judge(dataclasses.replace(SETTINGS, warm=False, **allowed)) as judge:
    sys.stdout.write(judge.evaluate(request_for_text(sys.stdin.read())).to_json())
"""
REACHABLE = """set -e
mount --bind "$1" "$3"
mount -t tmpfs -o mode=755 home "$2"
mkdir -p "$1"
mount --bind "$3" "$1"
shift 3
exec "$@"
"""
"""Lets every user read the interpreter at $1, though it lies in a closed folder $2; this process alone sees that."""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start ranks as another user")
def test_without_a_sandbox_root_runs_ranks_as_another_user_who_reads_no_data_of_the_site(tmp_path: Path) -> None:
    site, held = tmp_path / "var", tmp_path / "held"
    site.mkdir(mode=0o700)
    held.mkdir()
    (site / "env").write_text("the key")  # readable by all, in a folder that is not
    command = [sys.executable, "-c", JUDGES]
    base = Path(sys.base_prefix)
    if closed := [folder for folder in reversed(base.parents) if not folder.stat().st_mode & 0o001]:
        command = ["unshare", "--mount", "sh", "-c", REACHABLE, "sh", str(base), str(closed[0]), str(held), *command]
    done = subprocess.run(
        command,
        input=PEEKS.format(path=str(site / "env")),
        env=os.environ | {"PKB_SECRET_KEY": "secret"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    report = EvaluationReport.from_json(done.stdout)
    assert (report.verdict, report.sandbox) == (Verdict.PASSED, SandboxLevel.NONE), report.message
    user, rest = report.ranks[0].log.splitlines()[0].split(" ", 1)
    assert int(user) >= DEFAULT_USERS[0]
    assert rest == "[] PermissionError []"


def test_a_sandbox_with_processors_of_its_own_gets_no_others_whatever_it_asks_for(tmp_path: Path) -> None:
    if "cpuset" not in cgroups.find().folders or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("no control group keeps processes to processors here, or there is one processor alone")
    bubblewrap.write_private(tmp_path)
    profile, settings = profiles.get("cpux2"), dataclasses.replace(SMALL, work_dir=tmp_path)
    confinement = doctor.resolve(profile, settings, private=tmp_path)
    assert confinement.hierarchy is not None
    own = max(os.sched_getaffinity(0))
    limits = bubblewrap.group_limits(settings, cpu_sets.Shares(sandbox=((own,),)))
    group = confinement.hierarchy.new(tmp_path.name, limits)
    asks = "import os; os.sched_setaffinity(0, range(os.cpu_count())); print(os.sched_getaffinity(0))"
    try:
        line = bubblewrap.command(
            confinement, ["-c", asks], private=tmp_path, profile=profile, settings=settings, group=group
        )
        done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=60, env={})
    finally:
        group.remove()
    assert done.stdout.strip() == f"{{{own}}}"


BURNS_BRIEFLY = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the times of children that nobody waits for are added to nobody's
for _ in range(4):
    if os.fork() == 0:
        while time.process_time() < 0.1:
            pass
        os._exit(0)
try:
    os.wait()
except ChildProcessError:
    print(sum(os.times()[:4]), flush=True)
"""


def test_slots_that_start_at_once_find_the_same_control_groups() -> None:
    with ThreadPoolExecutor(4) as slots:
        found = list(slots.map(lambda _: cgroups.find(), range(60)))
    assert {frozenset(each.folders.items()) for each in found} == {frozenset(cgroups.find().folders.items())}


def test_processor_time_of_children_that_nobody_waited_for_counts(tmp_path: Path) -> None:
    hierarchy = cgroups.find()
    if hierarchy.core is None:
        pytest.skip("control groups of version 2 are not to be had here")
    group = hierarchy.new(tmp_path.name, bubblewrap.group_limits(SMALL, cpu_sets.Shares()))
    enter = "".join(f"echo $$ > {entrance}; " for entrance in group.entrances)
    try:
        command = ["sh", "-c", f'{enter}exec "$0" -c "$1"', sys.executable, BURNS_BRIEFLY]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        assert float(done.stdout) < 0.4, "as the process itself and /proc report"
        assert group.used_ns is not None
        assert group.used_ns >= 400_000_000
    finally:
        group.remove()


def test_a_group_may_use_the_processors_of_all_its_ranks_and_neither_the_references_nor_the_hosts() -> None:
    shares = cpu_sets.shares(range(64), world_size=4)
    processors = bubblewrap.group_limits(SMALL, shares).processors
    assert set(processors) == {number for part in shares.sandbox for number in part}
    assert not set(processors) & {*shares.host, *(number for part in shares.oracle for number in part)}
    assert bubblewrap.group_limits(SMALL, cpu_sets.Shares()).processors == ()  # all


def test_groups_of_killed_judges_are_swept_away_and_young_ones_stay(tmp_path: Path) -> None:
    old, young = tmp_path / "pkb-old", tmp_path / "pkb-young"
    old.mkdir()
    young.mkdir()
    os.utime(old, (0, 0))
    cgroups.sweep(tmp_path)
    assert not old.exists()
    assert young.is_dir()


def test_controllers_that_are_used_and_those_that_are_missing_are_named(tmp_path: Path) -> None:
    every = dict.fromkeys(("memory", "pids", "cpu", "cpuset"), tmp_path)
    found = cgroups.Hierarchy(folders=every, versions=dict.fromkeys(every, 2), core=tmp_path)
    assert found.detail == "uses memory (version 2), pids (version 2), cpu (version 2), cpuset (version 2)"
    assert cgroups.Hierarchy().detail == "no usable controller for memory, pids, cpu, cpuset; no cgroup.kill"
