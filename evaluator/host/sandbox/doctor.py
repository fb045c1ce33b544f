"""What this machine can enforce on a sandbox, found by starting one with a probe in it."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evaluator.contract import SandboxLevel
from evaluator.errors import EvaluatorError
from evaluator.hardware.profiles import Profile
from evaluator.host.machine.gpus import gpus_for, present
from evaluator.host.sandbox import cgroups
from evaluator.host.sandbox.bubblewrap import (
    Confinement,
    Probe,
    command,
    environment,
    layout,
    new_group,
    open_filter,
    write_private,
)
from evaluator.host.sandbox.cgroups import Hierarchy
from evaluator.host.sandbox.cpu_sets import shares_for
from evaluator.host.sandbox.slot_claims import SlotUser
from evaluator.host.settings import JudgeSettings, SandboxChoice

# Runs inside the sandbox and reports what it can still do. No torch, so it takes some 50 ms.
_PROBE = """
import ctypes, errno, json, os, resource, socket, sys
def can(action):
    try:
        action()
    except Exception:
        return False
    return True
def write(path):
    with open(path, "w"):
        pass
libc = ctypes.CDLL(None, use_errno=True)
def call(flags):
    if libc.unshare(flags) < 0:
        raise OSError(ctypes.get_errno(), "refused")
can(lambda: os.sched_setaffinity(0, range(os.cpu_count())))
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
devices = sorted(name for name in os.listdir("/dev") if name not in {
    "core", "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero",
    "console",
})
mounts = [line.split() for line in open("/proc/self/mountinfo")]
writable = sorted(line[4] for line in mounts if "rw" in line[5].split(",") and line[4] not in {"/proc"})
print(json.dumps({
    "pid": os.getpid(),
    "uid": os.getuid(),
    "effective": int(status["CapEff"], 16) | int(status["CapPrm"], 16) | int(status["CapInh"], 16),
    "bounding": int(status["CapBnd"], 16),
    "no_new_privileges": status["NoNewPrivs"].strip() == "1",
    "seccomp": status["Seccomp"].strip() == "2",
    "groups": len(os.getgroups()),
    "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
    "namespaces": {name: os.readlink("/proc/self/ns/" + name) for name in sorted(os.listdir("/proc/self/ns"))},
    "interfaces": [name for _, name in socket.if_nameindex()],
    "root_writable": can(lambda: write("/probe")),
    "dev_writable": can(lambda: write("/dev/probe")),
    "tmp_writable": can(lambda: write("/tmp/probe")),
    "writable": writable,
    "devices": devices,
    "new_namespace": can(lambda: call(0x10000000)),
    "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd")),
    "stdin_empty": os.read(0, 1) == b"",
    "environment": sorted(os.environ),
    "host_name": socket.gethostname(),
    "unopened": sorted(name for name in devices if name.startswith("nvidia") and not can(
        lambda: os.close(os.open("/dev/" + name, os.O_RDWR)))),
    "core": resource.getrlimit(resource.RLIMIT_CORE)[1],
    "processors": sorted(os.sched_getaffinity(0)),
}))
"""


def survey(
    profile: Profile,
    settings: JudgeSettings,
    *,
    private: Path,
    user: int | None,
    hierarchy: Hierarchy | None,
    why_no_user: str = "the judge does not run as root, so it cannot start a sandbox as another user",
) -> tuple[Probe, ...]:
    """Start the real sandbox with a small probe in it and say which properties hold on this machine."""
    if shutil.which("bwrap") is None:
        return (Probe(name="bubblewrap", holds=False, detail="the program bwrap is not installed"),)
    confined = Confinement(level=SandboxLevel.REDUCED, user=user, hierarchy=hierarchy)
    try:
        seen = _probed(confined, profile, settings, private=private)
    except subprocess.CalledProcessError as error:
        return (Probe(name="bubblewrap", holds=False, detail=error.stderr.strip()[:500]),)
    except (OSError, subprocess.TimeoutExpired, ValueError, EvaluatorError) as error:
        return (Probe(name="bubblewrap", holds=False, detail=str(error)[:500]),)
    return tuple(
        probe if probe.holds or probe.detail else replace(probe, detail="the probe in the sandbox found the opposite")
        for probe in _judge_probe(seen, confined, profile, why_no_user=why_no_user)
    )


def _probed(confined: Confinement, profile: Profile, settings: JudgeSettings, *, private: Path) -> dict[str, Any]:
    """What the probe saw inside."""
    call_filter = open_filter()
    group = new_group(confined, settings, shares=shares_for(profile), name=private.name)
    inherited = () if call_filter is None else (call_filter,)
    line = command(
        confined,
        ["-c", _PROBE],
        private=private,
        profile=profile,
        settings=settings,
        gpus=gpus_for(profile) if len(present()) >= profile.gpus else (),
        call_filter=call_filter,
        group=group,
    )
    try:
        done = subprocess.run(  # noqa: S603 - our own command, without a shell
            line,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
            env={},
            pass_fds=inherited,
            stdin=subprocess.DEVNULL,
        )
        seen: dict[str, Any] = json.loads(done.stdout)
        return seen
    finally:
        for descriptor in inherited:
            os.close(descriptor)
        if group is not None:
            group.remove()


def _judge_probe(
    seen: Mapping[str, Any], confined: Confinement, profile: Profile, *, why_no_user: str
) -> Iterator[Probe]:
    """Every property that a sandbox should have, compared with what the probe saw."""
    yield Probe(name="bubblewrap", holds=True)
    own = {name: os.readlink(f"/proc/self/ns/{name}") for name in _NAMESPACES}  # noqa: PTH115 - not a path
    shared = sorted(name for name in _NAMESPACES if seen["namespaces"].get(name) == own[name])
    few = int(seen["pid"]) < 10 and int(seen["processes"]) < 10
    yield Probe(name="process namespace", holds="pid" not in shared and few, detail=f"{seen['processes']} visible")
    yield Probe(name="user, network, IPC, UTS and cgroup namespaces", holds=not shared, detail=", ".join(shared))
    yield Probe(name="network: own loopback only", holds=seen["interfaces"] == ["lo"], detail=str(seen["interfaces"]))
    yield Probe(name="mapped to nobody", holds=seen["uid"] == 65534)
    yield Probe(name="no capability", holds=seen["effective"] == 0 and seen["bounding"] == 0)
    yield Probe(name="no new privileges", holds=bool(seen["no_new_privileges"]))
    yield Probe(name="no further user namespaces", holds=not seen["new_namespace"])
    yield Probe(name="root and /dev read-only", holds=not seen["root_writable"] and not seen["dev_writable"])
    extra = sorted(set(seen["writable"]) - _MAY_BE_WRITABLE - {f"/dev/{name}" for name in seen["devices"]})
    yield Probe(name="nothing else writable", holds=not extra, detail=", ".join(extra))
    yield Probe(name="temporary directory writable", holds=bool(seen["tmp_writable"]))
    foreign = [name for name in seen["devices"] if not name.startswith("nvidia")]
    yield Probe(name="no other devices", holds=not foreign, detail=", ".join(foreign))
    yield Probe(name=_GPUS_OPEN, holds=not seen["unopened"], detail=", ".join(seen["unopened"]))
    # 0 to 2, and the one with which the probe lists them.
    yield Probe(name="no inherited descriptors", holds=len(seen["descriptors"]) <= 4 and bool(seen["stdin_empty"]))
    yield from _judge_limits(seen, confined, profile, why_no_user=why_no_user)


def _judge_limits(
    seen: Mapping[str, Any], confined: Confinement, profile: Profile, *, why_no_user: str
) -> Iterator[Probe]:
    """The properties of environment, system calls, user, groups and processors."""
    foreign = sorted(set(seen["environment"]) - set(environment(profile)) - {"PWD", "LC_CTYPE"})
    named = seen["host_name"] == "judge"
    yield Probe(name="environment cleared", holds=not foreign and named, detail=", ".join(foreign))
    yield Probe(
        name="system call filter",
        holds=bool(seen["seccomp"]),
        detail="" if seen["seccomp"] else "libseccomp (Debian: libseccomp2) is not installed",
    )
    yield Probe(
        name="own host user per slot",
        holds=confined.user is not None,
        detail=f"user {confined.user}" if confined.user is not None else why_no_user,
    )
    hierarchy = confined.hierarchy
    yield Probe(
        name="memory and process limits by cgroup",
        holds=hierarchy is not None and hierarchy.limits_hold,
        detail=hierarchy.detail if hierarchy is not None else "no group can be made here; rlimits only",
    )
    if profile.device == "cuda":
        yield _judge_processors(frozenset(seen["processors"]), profile)


def _judge_processors(reached: frozenset[int], profile: Profile) -> Probe:
    """Whether the probe, which asked for all processors, got only those of the sandbox ranks."""
    own = {number for part in shares_for(profile).sandbox for number in part}
    if own:
        others = sorted(reached - own)
        detail = f"it can run on {len(others)} that belong to the reference or the host" if others else ""
    else:
        detail = f"{len(reached)} processors are too few to give every rank its own: all ranks use all"
    return Probe(name=_OUT_OF_REACH, holds=not detail, detail=detail, is_demanded=False)


_OUT_OF_REACH = "processors of the reference and the host out of reach"

_GPUS_OPEN = "the slot's GPUs can be opened"
_NAMESPACES = ("user", "net", "ipc", "uts", "cgroup", "pid", "mnt")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "console")
_MAY_BE_WRITABLE = frozenset({"/tmp", "/dev/shm", "/dev/pts", *(f"/dev/{name}" for name in _DEVICES)})  # noqa: S108

NEVER_ENFORCED = {
    "cpu": ("ranks of one worker group share a user: each can reach its peer's memory",),
    "cuda": (
        "ranks of one worker group share a user: each can reach its peer's memory",
        "GPU memory has no limit; the oracle ranks take their share first",
        "calls into the GPU driver are not filtered",
    ),
}
"""What no node can prevent, by kind of device; the doctor reports it."""

_NEEDED_FOR_REDUCED = frozenset(
    {
        "bubblewrap",
        _GPUS_OPEN,
        "process namespace",
        "user, network, IPC, UTS and cgroup namespaces",
        "nothing else writable",
        "no other devices",
        "no inherited descriptors",
        "network: own loopback only",
        "no capability",
        "no new privileges",
        "root and /dev read-only",
        "environment cleared",
    }
)


def resolve(profile: Profile, settings: JudgeSettings, *, private: Path, user: int | None = None) -> Confinement:
    """The confinement that this machine and the settings allow; `user` is the slot's host user.

    Raises:
        EvaluatorError: the settings require more than the machine has; the message says what is missing.
    """
    if settings.sandbox is SandboxChoice.NONE:
        return _unconfined(settings, (), user=user)
    hierarchy = cgroups.find()
    held = hierarchy if hierarchy.folders or hierarchy.core is not None else None
    starter, probes = _survey_as(user, profile, settings, private=private, hierarchy=held)
    missing = [probe for probe in probes if probe.is_demanded and not probe.holds]
    lacks = "; ".join(f"{probe.name}: {probe.detail or 'does not hold'}" for probe in missing)
    if not missing:
        return Confinement(level=SandboxLevel.FULL, probes=probes, user=starter, hierarchy=held)
    if settings.sandbox is SandboxChoice.REQUIRE:
        raise EvaluatorError(f"this machine cannot confine a submission fully: {lacks}")
    if not any(probe.name in _NEEDED_FOR_REDUCED for probe in missing):
        return Confinement(level=SandboxLevel.REDUCED, probes=probes, user=starter, hierarchy=held)
    return _unconfined(settings, probes, lacks, user=user)


def resolve_in(work_dir: Path, *, profile: Profile, settings: JudgeSettings, user: SlotUser | None) -> Confinement:
    """As `resolve`, with a private folder below `work_dir` that is removed again; raises EvaluatorError."""
    private = Path(tempfile.mkdtemp(prefix="survey-", dir=work_dir))
    write_private(private)
    try:
        found = resolve(profile, settings, private=private, user=user.number if user is not None else None)
    finally:
        shutil.rmtree(private, ignore_errors=True)
    if found.level is SandboxLevel.NONE and found.user is not None:
        work_dir.chmod(0o711)  # that user may pass to its own folders, and list none
        _refuse_unless_it_starts(found, profile, settings, work_dir=work_dir)
    return found


def _survey_as(
    user: int | None, profile: Profile, settings: JudgeSettings, *, private: Path, hierarchy: Hierarchy | None
) -> tuple[int | None, tuple[Probe, ...]]:
    """The properties for the host user `user`, and that user; None where only the judge's own user can start one."""
    probes = survey(profile, settings, private=private, user=user, hierarchy=hierarchy)
    blocked = [probe for probe in probes if probe.name in ("bubblewrap", _GPUS_OPEN) and not probe.holds]
    if user is None or not blocked:
        return user, probes
    # A container that may not mount or change users, or device nodes only for root.
    why = f"not as user {user}: {blocked[0].name}: {blocked[0].detail}"
    return None, survey(profile, settings, private=private, user=None, hierarchy=hierarchy, why_no_user=why)


def _unconfined(
    settings: JudgeSettings, probes: tuple[Probe, ...], lacks: str = "", *, user: int | None
) -> Confinement:
    """No sandbox, where the settings allow it."""
    if settings.allow_unsandboxed and settings.other_user and user is None:
        raise EvaluatorError(
            "nothing is judged here: without a sandbox, only a judge that root starts may run a submission"
        )
    if settings.allow_unsandboxed:
        return Confinement(level=SandboxLevel.NONE, probes=probes, user=user if settings.other_user else None)
    if not lacks:
        raise EvaluatorError("the settings ask for no sandbox, and running one without is not allowed")
    mending = remedy(probes)
    hint = f"To mend it: {mending}. " if mending else ""
    raise EvaluatorError(f"nothing is judged here without a sandbox. {hint}What fails: {lacks}")


def _refuse_unless_it_starts(
    confinement: Confinement, profile: Profile, settings: JudgeSettings, *, work_dir: Path
) -> None:
    """Raise EvaluatorError where the user of the ranks cannot reach Python, the arena or its own folders."""
    launcher = layout(confinement, private=work_dir).launcher
    reach = "import os, sys; open(sys.argv[1]).close(); os.stat(sys.argv[2])"
    line = command(
        confinement, ["-c", reach, launcher, f"{work_dir}/."], private=work_dir, profile=profile, settings=settings
    )
    done = subprocess.run(line, capture_output=True, text=True, timeout=30, check=False, env={}, cwd="/")  # noqa: S603
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise EvaluatorError(
            f"the user {confinement.user}, as whom submissions run without a sandbox, cannot run Python or reach its "
            f"folders: {why[:200]}. Install the site where every user may read it, not in a home folder"
        )


_SWITCHES = (
    ("/proc/sys/user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=10000"),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)
"""Settings of the kernel that refuse bubblewrap: the file, the value, and the command that changes it."""


def remedy(probes: Sequence[Probe]) -> str:
    """The command with which bubblewrap works here; empty where it does already."""
    if not any(probe.name == "bubblewrap" and not probe.holds for probe in probes):
        return ""
    if shutil.which("bwrap") is None:
        return "apt-get install bubblewrap (as root)"
    for path, value, switch in _SWITCHES:
        with contextlib.suppress(OSError):
            if Path(path).read_text(encoding="ascii").strip() == value:
                return f"{switch} (as root, on the host)"
    options = ("seccomp=unconfined", "apparmor=unconfined", "systempaths=unconfined")
    return f"in a container: docker run {' '.join(f'--security-opt {option}' for option in options)}"
