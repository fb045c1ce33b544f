"""Confining a gang with bubblewrap: the command, and a survey of what this machine can enforce."""

import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluator.contract import SandboxLevel
from evaluator.errors import EvaluatorError
from evaluator.hardware.profiles import Profile
from evaluator.host import seccomp
from evaluator.host.settings import JudgeSettings, SandboxChoice

_PACKAGE = Path(__file__).parents[1]
_JUDGE = "/judge"
_MULTICAST_OFF = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}
_ON_LOOPBACK = {"NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1"}

# Runs inside the sandbox and tells what it could still do. No torch, so it takes some 50 ms.
_PROBE = """
import ctypes, json, os, socket
def can(action):
    try:
        action()
    except Exception:
        return False
    return True
def write(path):
    with open(path, "w"):
        pass
def unshare():
    if ctypes.CDLL(None).unshare(0x10000000):  # CLONE_NEWUSER
        raise OSError
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
print(json.dumps({
    "pid": os.getpid(),
    "uid": os.getuid(),
    "effective": int(status["CapEff"], 16) | int(status["CapPrm"], 16),
    "bounding": int(status["CapBnd"], 16),
    "no_new_privileges": status["NoNewPrivs"].strip() == "1",
    "seccomp": status["Seccomp"].strip() != "0",
    "interfaces": [name for _, name in socket.if_nameindex()],
    "root_writable": can(lambda: write("/probe")),
    "dev_writable": can(lambda: write("/dev/probe")),
    "tmp_writable": can(lambda: write("/tmp/probe")),
    "new_namespace": can(unshare),
    "environment": sorted(os.environ),
    "host_uid_owner": os.stat("/source").st_uid,
}))
"""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One property of a sandbox on this machine: whether it holds, and why not."""

    name: str
    holds: bool
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Confinement:
    """How gangs will be confined: the level reached, and every probe behind it."""

    level: SandboxLevel
    probes: tuple[Probe, ...] = ()

    @property
    def missing(self) -> tuple[Probe, ...]:
        """What does not hold."""
        return tuple(probe for probe in self.probes if not probe.holds)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where things lie as the gang sees them."""

    source: str
    store: str
    launcher: str
    compat: str


def layout(confinement: Confinement, *, private: Path) -> Layout:
    """The paths of a gang whose host directory is `private` (which holds `source/`)."""
    if confinement.level is SandboxLevel.NONE:
        arena = _PACKAGE / "arena"
        return Layout(
            source=str(private / "source"),
            store=str(private / "store"),
            launcher=str(arena / "launcher.py"),
            compat=str(arena / "compat"),
        )
    arena_inside = f"{_JUDGE}/evaluator/arena"
    return Layout(
        source="/source",
        store="/tmp/.store",  # noqa: S108 - a tmpfs of the sandbox's own
        launcher=f"{arena_inside}/launcher.py",
        compat=f"{arena_inside}/compat",
    )


def environment(profile: Profile, *, home: str = "/tmp") -> dict[str, str]:  # noqa: S108 - the sandbox's own tmpfs
    """All variables that a rank sees, beside those that its rank number sets."""
    variables = {
        "HOME": home,
        "TMPDIR": home,
        "PATH": "/usr/bin:/usr/sbin:/usr/local/cuda/bin",
        "LANG": "C.UTF-8",
        "PYTHONNOUSERSITE": "1",
        "PYTHONSAFEPATH": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TRITON_CACHE_DIR": f"{home}/triton",
        "TORCH_EXTENSIONS_DIR": f"{home}/extensions",
        "CUDA_CACHE_PATH": f"{home}/cuda",
        "TORCHINDUCTOR_CACHE_DIR": f"{home}/inductor",
        **_ON_LOOPBACK,
    }
    if profile.device == "cuda" and (libraries := _driver_libraries()):
        variables["LD_LIBRARY_PATH"] = libraries
    return variables if profile.multicast else variables | _MULTICAST_OFF


def _driver_libraries() -> str:
    """Those folders of the host's library path that the sandbox shows as well; some images keep the driver there."""
    given = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return ":".join(path for path in given if path.startswith("/usr/") and Path(path).is_dir())


def command(
    confinement: Confinement,
    arguments: Sequence[str],
    *,
    private: Path,
    profile: Profile,
    settings: JudgeSettings,
    gpus: Sequence[int] = (),
    call_filter: int | None = None,
) -> list[str]:
    """The command line that runs `python -I <arguments>` confined as far as `confinement` says.

    `call_filter` is a descriptor of the system call filter that the process will inherit, None for no filter.
    """
    python = [sys.executable, "-I", *arguments]
    if confinement.level is SandboxLevel.NONE:
        return python
    filtered = [] if call_filter is None else ["--seccomp", str(call_filter)]
    return [*_bubblewrap(private=private, profile=profile, settings=settings, gpus=gpus), *filtered, "--", *python]


def _bubblewrap(*, private: Path, profile: Profile, settings: JudgeSettings, gpus: Sequence[int]) -> list[str]:
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise EvaluatorError("bubblewrap (bwrap) is not installed")
    parts = [
        [bwrap, "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"],
        ["--unshare-cgroup-try", "--disable-userns", "--uid", "65534", "--gid", "65534", "--hostname", "judge"],
        ["--die-with-parent", "--as-pid-1", "--new-session", "--cap-drop", "ALL", "--clearenv"],
        *_system_binds(private, profile),
        ["--proc", "/proc", "--dev", "/dev"],
        *_gpu_binds(gpus),
        ["--perms", "1777", "--size", str(settings.shared_memory_bytes), "--tmpfs", "/dev/shm"],  # noqa: S108
        ["--perms", "1777", "--size", str(settings.temporary_bytes), "--tmpfs", "/tmp"],  # noqa: S108
        # After the empty /tmp: the interpreter may lie in a folder below it.
        *(["--ro-bind", prefix, prefix] for prefix in _python_prefixes()),
        ["--ro-bind", str(_PACKAGE / "__init__.py"), f"{_JUDGE}/evaluator/__init__.py"],
        ["--ro-bind", str(_PACKAGE / "arena"), f"{_JUDGE}/evaluator/arena"],
        ["--ro-bind", str(private / "source"), "/source", "--ro-bind", str(private / "built"), "/built"],
        ["--remount-ro", "/", "--remount-ro", "/dev", "--chdir", "/tmp"],  # noqa: S108
        *(["--setenv", name, value] for name, value in environment(profile).items()),
    ]
    return [word for part in parts for word in part]


def _system_binds(private: Path, profile: Profile) -> Iterator[list[str]]:
    """The read-only root: /usr and a few files of /etc."""
    yield ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        path = Path("/", name)
        if path.is_symlink():
            yield ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            yield ["--ro-bind", str(path), str(path)]
    yield ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    yield ["--ro-bind-try", "/etc/alternatives", "/etc/alternatives"]
    for name in ("hosts", "passwd", "group", "nsswitch.conf"):
        yield ["--ro-bind", str(private / "etc" / name), f"/etc/{name}"]
    if profile.device == "cuda":
        yield ["--ro-bind", "/sys", "/sys"]


def _python_prefixes() -> list[str]:
    """Every directory that the interpreter and its packages need, without those inside /usr or one another."""
    paths = sysconfig.get_paths()
    wanted = {sys.prefix, sys.base_prefix, *(paths[name] for name in ("stdlib", "purelib", "platlib"))}
    kept: list[str] = []
    for path in sorted({os.path.realpath(path) for path in wanted} | wanted):
        if path != "/usr" and not path.startswith("/usr/") and not any(path.startswith(f"{base}/") for base in kept):
            kept.append(path)
    return kept


def _gpu_binds(gpus: Sequence[int]) -> Iterator[list[str]]:
    if not gpus:
        return
    for name in ("nvidiactl", "nvidia-uvm", *(f"nvidia{gpu}" for gpu in gpus)):
        yield ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    yield ["--dev-bind-try", "/dev/nvidia-uvm-tools", "/dev/nvidia-uvm-tools"]


def write_private(private: Path) -> None:
    """Fill a gang's host directory: an empty `source/` and `built/`, and the few files of `etc/`."""
    for name in ("source", "built", "etc"):
        (private / name).mkdir()
    files = {
        "hosts": "127.0.0.1 localhost judge\n::1 localhost\n",
        "passwd": "nobody:x:65534:65534:nobody:/tmp:/usr/sbin/nologin\n",
        "group": "nogroup:x:65534:\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    }
    for name, text in files.items():
        (private / "etc" / name).write_text(text, encoding="utf-8")


def open_filter() -> int | None:
    """A descriptor of the system call filter for one start, or None where there is none for this processor."""
    return seccomp.open_program() if seccomp.is_available() else None


def survey(profile: Profile, settings: JudgeSettings, *, private: Path) -> tuple[Probe, ...]:
    """Start the real sandbox with a small probe in it and say which properties hold on this machine."""
    if shutil.which("bwrap") is None:
        return (Probe(name="bubblewrap", holds=False, detail="the program bwrap is not installed"),)
    confined = Confinement(level=SandboxLevel.REDUCED)
    call_filter = open_filter()
    line = command(
        confined, ["-c", _PROBE], private=private, profile=profile, settings=settings, call_filter=call_filter
    )
    inherited = () if call_filter is None else (call_filter,)
    try:
        done = subprocess.run(  # noqa: S603 - our own command, without a shell
            line, capture_output=True, text=True, timeout=30, check=True, env={}, pass_fds=inherited
        )
        seen = json.loads(done.stdout)
    except subprocess.CalledProcessError as error:
        return (Probe(name="bubblewrap", holds=False, detail=error.stderr.strip()[:500]),)
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        return (Probe(name="bubblewrap", holds=False, detail=str(error)[:500]),)
    finally:
        for descriptor in inherited:
            os.close(descriptor)
    return tuple(_judge_probe(seen, expected=environment(profile)))


def _judge_probe(seen: dict[str, object], *, expected: Mapping[str, str]) -> Iterator[Probe]:
    yield Probe(name="bubblewrap", holds=True)
    yield Probe(name="process namespace", holds=int(str(seen["pid"])) < 10)
    yield Probe(name="network: own loopback only", holds=seen["interfaces"] == ["lo"], detail=str(seen["interfaces"]))
    yield Probe(name="mapped to nobody", holds=seen["uid"] == 65534)
    yield Probe(name="no capability", holds=seen["effective"] == 0 and seen["bounding"] == 0)
    yield Probe(name="no new privileges", holds=bool(seen["no_new_privileges"]))
    yield Probe(name="no further user namespaces", holds=not seen["new_namespace"])
    yield Probe(name="root and /dev read-only", holds=not seen["root_writable"] and not seen["dev_writable"])
    yield Probe(name="temporary directory writable", holds=bool(seen["tmp_writable"]))
    foreign = sorted(set(map(str, seen["environment"])) - set(expected) - {"PWD", "LC_CTYPE"})  # type: ignore[call-overload]
    yield Probe(name="environment cleared", holds=not foreign, detail=", ".join(foreign))
    yield Probe(
        name="system call filter",
        holds=bool(seen["seccomp"]),
        detail="" if seen["seccomp"] else f"there is no filter for {platform.machine()}",
    )
    yield Probe(
        name="own host user per slot",
        holds=os.getuid() != 0 and _is_dedicated_user(),
        detail="" if os.getuid() != 0 else "the judge runs as root, so the ranks are root's outside as well",
    )
    yield _probe_cgroup()


def _is_dedicated_user() -> bool:
    """A slot has a user of its own when the operator started the node through a set-uid step; not built yet."""
    return False


def _probe_cgroup() -> Probe:
    root = Path("/sys/fs/cgroup")
    controllers = root / "cgroup.controllers"
    if not controllers.is_file():
        return Probe(name="memory and process limits by cgroup", holds=False, detail="no cgroup v2 hierarchy here")
    offered = controllers.read_text(encoding="utf-8").split()
    holds = {"memory", "pids"} <= set(offered) and os.access(root, os.W_OK)
    return Probe(
        name="memory and process limits by cgroup",
        holds=False,
        detail="cgroup v2 is writable, but limits are set by rlimits only so far" if holds else "not writable",
    )


_NEEDED_FOR_REDUCED = frozenset(
    {
        "bubblewrap",
        "process namespace",
        "network: own loopback only",
        "no capability",
        "no new privileges",
        "root and /dev read-only",
        "environment cleared",
    }
)


def resolve(profile: Profile, settings: JudgeSettings, *, private: Path) -> Confinement:
    """The confinement that this machine and the settings give.

    Raises:
        EvaluatorError: the settings demand more than the machine has; the message says what is missing.
    """
    if settings.sandbox is SandboxChoice.NONE:
        return _unconfined(settings, ())
    probes = survey(profile, settings, private=private)
    missing = [probe for probe in probes if not probe.holds]
    lacks = "; ".join(f"{probe.name}: {probe.detail or 'does not hold'}" for probe in missing)
    if not missing:
        return Confinement(level=SandboxLevel.FULL, probes=probes)
    if settings.sandbox is SandboxChoice.REQUIRE:
        raise EvaluatorError(f"this machine cannot confine a submission fully: {lacks}")
    if not any(probe.name in _NEEDED_FOR_REDUCED for probe in missing):
        return Confinement(level=SandboxLevel.REDUCED, probes=probes)
    return _unconfined(settings, probes, lacks)


def _unconfined(settings: JudgeSettings, probes: tuple[Probe, ...], lacks: str = "") -> Confinement:
    if not settings.allow_unsandboxed:
        reason = f"this machine cannot confine a submission ({lacks})" if lacks else "the settings ask for no sandbox"
        raise EvaluatorError(
            f"{reason}, and running one without a sandbox is not allowed; install bubblewrap, or allow it explicitly "
            "on a machine where only your own code runs"
        )
    return Confinement(level=SandboxLevel.NONE, probes=probes)
