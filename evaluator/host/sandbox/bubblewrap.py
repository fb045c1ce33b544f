"""Confines a worker group with bubblewrap: the command, and what this machine can enforce."""

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluator.contract import SandboxLevel
from evaluator.errors import EvaluatorError
from evaluator.hardware.profiles import Profile
from evaluator.host.sandbox import seccomp
from evaluator.host.sandbox.cgroups import Group, GroupLimits, Hierarchy
from evaluator.host.sandbox.cpu_sets import Shares
from evaluator.host.sandbox.slot_claims import Stage, as_user, inside_groups
from evaluator.host.settings import JudgeSettings

_PACKAGE = Path(__file__).parents[2]
_JUDGE = "/judge"
_MULTICAST_OFF = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}
_ON_LOOPBACK = {"NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1"}
_ON_ONE_GPU = {
    "TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES": "1",  # its rendezvous refuses ranks on one device otherwise
    "NCCL_NET": "Socket",
}


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One property of a sandbox on this machine: whether it holds, and why not.

    Without `is_demanded` the level does not depend on it: a missing property is reported, and no work is refused.
    """

    name: str
    holds: bool
    detail: str = ""
    is_demanded: bool = True


@dataclass(frozen=True, kw_only=True)
class Confinement:
    """How worker groups will be confined: the level reached, and every probe behind it.

    Attributes:
        user: the host user that starts sandboxes; None for the judge's own.
        hierarchy: where control groups can be made; None where there are none.
    """

    level: SandboxLevel
    probes: tuple[Probe, ...] = ()
    user: int | None = None
    hierarchy: Hierarchy | None = None

    @property
    def missing(self) -> tuple[Probe, ...]:
        """The probes that failed."""
        return tuple(probe for probe in self.probes if not probe.holds)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The paths that the worker group sees."""

    source: str
    store: str
    launcher: str
    builder: str
    compat: str


def layout(confinement: Confinement, *, private: Path) -> Layout:
    """The paths of a worker group whose host directory is `private` (which holds `source/`)."""
    if confinement.level is SandboxLevel.NONE:
        arena = _PACKAGE / "arena"
        return Layout(
            source=str(private / "source"),
            store=str(private / "home" / "store"),
            launcher=str(arena / "rank" / "launcher.py"),
            builder=str(arena / "builder" / "build.py"),
            compat=str(arena / "compat"),
        )
    arena_inside = f"{_JUDGE}/evaluator/arena"
    return Layout(
        source="/source",
        store="/tmp/.store",  # noqa: S108 - a tmpfs of the sandbox's own
        launcher=f"{arena_inside}/rank/launcher.py",
        builder=f"{arena_inside}/builder/build.py",
        compat=f"{arena_inside}/compat",
    )


def environment(profile: Profile, *, home: str = "/tmp") -> dict[str, str]:  # noqa: S108 - the sandbox's own tmpfs
    """All variables of a rank, besides those that depend on its rank."""
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
        "KINETO_LOG_LEVEL": "99",  # keeps the profiler's output out of the author's log
        **_ON_LOOPBACK,
    }
    if profile.device == "cuda" and (libraries := _driver_libraries()):
        variables["LD_LIBRARY_PATH"] = libraries
    if profile.shares_gpu:
        variables |= _ON_ONE_GPU
    return variables if profile.multicast else variables | _MULTICAST_OFF


def _driver_libraries() -> str:
    """Folders of the host's library path that the sandbox also shows; some images keep the driver there."""
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
    group: Group | None = None,
) -> list[str]:
    """The command line that runs `python -I <arguments>` confined as `confinement` says.

    `call_filter` is a descriptor of the system call filter that the process will inherit, None for none. The process
    starts inside `group`.
    """
    python = [sys.executable, "-I", *arguments]
    entrances = group.entrances if group is not None else ()
    if confinement.level is SandboxLevel.NONE:
        return inside_groups(python if confinement.user is None else as_user(confinement.user, python), entrances)
    filtered = [] if call_filter is None else ["--seccomp", str(call_filter)]
    stage = Stage(confinement.user) if confinement.user is not None else None
    sources = _Sources(private=private, stage=stage)
    line = [*_bubblewrap(sources, profile=profile, settings=settings, gpus=gpus), *filtered, "--", *python]
    return inside_groups(line if stage is None else stage.command(line), entrances)


@dataclass(frozen=True, kw_only=True)
class _Sources:
    """Source paths for bubblewrap: the files' own paths, or those on a stage for another user."""

    private: Path
    stage: Stage | None

    def of(self, path: str | Path) -> str:
        """The path to give to bubblewrap for a folder or file of ours."""
        return self.stage.shown(str(path)) if self.stage is not None else str(path)

    def own(self, *parts: str) -> str:
        """The same for something in the worker group's private directory."""
        return "/".join((self.of(self.private), *parts))


def memory_limit(settings: JudgeSettings) -> int:
    """How many bytes of memory a sandbox may use: the settings' number, or three quarters of a smaller machine."""
    return min(settings.memory_bytes, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 3 // 4)


def group_limits(settings: JudgeSettings, shares: Shares) -> GroupLimits:
    """The limits of one sandbox; only the processors of its ranks, where `shares` gives every rank its own.

    Ranks and their children can set their affinity, so only the control group keeps them off the processors of the
    reference and the host.
    """
    return GroupLimits(
        memory_bytes=memory_limit(settings),
        processes=settings.processes,
        cores=settings.cores,
        processors=tuple(sorted(number for part in shares.sandbox for number in part)),
    )


def new_group(confinement: Confinement, settings: JudgeSettings, *, shares: Shares, name: str) -> Group | None:
    """A control group for one sandbox, or None where there are none here.

    Raises:
        EvaluatorError: the kernel refuses one now, though it allowed one when the machine was examined.
    """
    if confinement.hierarchy is None:
        return None
    try:
        return confinement.hierarchy.new(name, group_limits(settings, shares))
    except OSError as error:
        raise EvaluatorError(f"no control group for the sandbox: {error}") from error


def _bubblewrap(sources: _Sources, *, profile: Profile, settings: JudgeSettings, gpus: Sequence[int]) -> list[str]:
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise EvaluatorError("bubblewrap (bwrap) is not installed")
    memory = memory_limit(settings)
    shared, temporary = min(settings.shared_memory_bytes, memory // 4), min(settings.temporary_bytes, memory // 2)
    parts = [
        [bwrap, "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"],
        ["--unshare-cgroup-try", "--disable-userns", "--uid", "65534", "--gid", "65534", "--hostname", "judge"],
        ["--die-with-parent", "--as-pid-1", "--new-session", "--cap-drop", "ALL", "--clearenv"],
        *_system_binds(sources, profile),
        ["--proc", "/proc", "--dev", "/dev"],
        *_gpu_binds(gpus),
        ["--perms", "1777", "--size", str(shared), "--tmpfs", "/dev/shm"],  # noqa: S108
        ["--perms", "1777", "--size", str(temporary), "--tmpfs", "/tmp"],  # noqa: S108
        # After the empty /tmp: the interpreter may lie in a folder below it.
        *(["--ro-bind", sources.of(prefix), prefix] for prefix in _python_prefixes()),
        ["--ro-bind", sources.of(_PACKAGE / "__init__.py"), f"{_JUDGE}/evaluator/__init__.py"],
        ["--ro-bind", sources.of(_PACKAGE / "arena"), f"{_JUDGE}/evaluator/arena"],
        ["--ro-bind", sources.own("source"), "/source", "--ro-bind", sources.own("built"), "/built"],
        ["--remount-ro", "/", "--remount-ro", "/dev", "--chdir", "/tmp"],  # noqa: S108
        *(["--setenv", name, value] for name, value in environment(profile).items()),
    ]
    return [word for part in parts for word in part]


def _system_binds(sources: _Sources, profile: Profile) -> Iterator[list[str]]:
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
        yield ["--ro-bind", sources.own("etc", name), f"/etc/{name}"]
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
    """Fill a worker group's host directory: an empty `source/` and `built/`, and the few files of `etc/`.

    The sandbox's user must be able to pass: it holds no secret, and the folder above keeps other users out.
    """
    private.chmod(0o755)
    for name in ("source", "built", "etc"):
        (private / name).mkdir()
        (private / name).chmod(0o755)
    files = {
        "hosts": "127.0.0.1 localhost judge\n::1 localhost\n",
        "passwd": "nobody:x:65534:65534:nobody:/tmp:/usr/sbin/nologin\n",
        "group": "nogroup:x:65534:\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    }
    for name, text in files.items():
        readable_file(private / "etc" / name, text)


def home_without_sandbox(private: Path, confinement: Confinement) -> Path:
    """The one folder in `private` that processes without a sandbox may write to."""
    home = private / "home"
    home.mkdir(mode=0o700, exist_ok=True)
    if confinement.user is not None:
        os.chown(home, confinement.user, confinement.user)
    return home


def readable_file(path: Path, text: str) -> None:
    """Write a file that the sandbox's user can read, in folders that it can pass, whatever this process's umask."""
    for folder in reversed([parent for parent in path.parents if not parent.exists()]):
        folder.mkdir()
        folder.chmod(0o755)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)


def open_filter() -> int | None:
    """A descriptor of the system call filter for one start, or None where there is none for this processor."""
    return seccomp.open_program() if seccomp.is_available() else None
