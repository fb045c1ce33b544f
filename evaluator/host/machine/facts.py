"""Facts about this machine for operators, and the profiles that its hardware allows."""

import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
from collections import Counter
from importlib import metadata
from pathlib import Path

from evaluator.errors import EvaluatorError
from evaluator.hardware import profiles
from evaluator.hardware.machines import machines
from evaluator.hardware.profiles import Profile
from evaluator.host.machine import driver_calls, gpus

_GIB = 1024**3
_ABSENT = "not installed"
_NCCL = ("nvidia-nccl-cu13", "nvidia-nccl-cu12")
_SMI_S = 0.8 * driver_calls.LIMIT_S
"""How long the driver's tool may take. It is killed then, and given up where even that does not end it."""
_DRIVER = Path("/proc/driver/nvidia/version")


def facts() -> dict[str, object]:
    """Facts by name, as plain values; GPU models come from the driver's own tool where it is installed."""
    models = gpu_models()
    return {
        "host": platform.node(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "torch": version("torch"),
        "triton": version("triton"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / _GIB, 1),
        "gpus": models,
        "nvcc": shutil.which("nvcc") or _ABSENT,
        "bubblewrap": shutil.which("bwrap") or _ABSENT,
        "profiles": possible_profiles(models),
    }


@functools.cache
def environment() -> dict[str, str]:
    """What a measurement reports of the machine and its versions; GPUs only where there are some."""
    found = {
        "python": platform.python_version(),
        "torch": version("torch"),
        "kernel": platform.release(),
        "machine": platform.machine(),
    }
    models = gpu_models()
    if models:
        found["gpus"] = ", ".join(f"{count} x {model}" for model, count in Counter(models).items())
        found["driver"] = _driver()
        found["gpu.uuids"] = ", ".join(_smi("uuid"))
        found["nccl"] = next((found_version for name in _NCCL if (found_version := version(name)) != _ABSENT), _ABSENT)
        found["triton"] = version("triton")
    return found


@functools.cache
def judge_digest() -> str:
    """SHA-256 over the judge's own sources, its first 16 hexadecimal digits: which judge a report comes from."""
    return sources_digest(Path(__file__).parents[2])


def sources_digest(*folders: Path) -> str:
    """SHA-256 over names and text of the Python, CUDA and header files in `folders`: 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(path for path in folder.rglob("*") if path.suffix in {".py", ".cu", ".h"}):
            digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def version(package: str) -> str:
    """The installed version of a package, or that there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return _ABSENT


def gpu_models() -> list[str]:
    """The driver's name of every GPU that this process may use."""
    return _smi("name") or [f"unknown model (nvidia{number})" for number in gpus.present()]


def _smi(field: str) -> list[str]:
    """The value of `field` of every GPU by the driver's tool; empty without the tool, or where it fails."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    query = [tool, f"--query-gpu={field}", "--format=csv,noheader"]
    try:
        done = driver_calls.ask(
            f"{field} of the GPUs, by {tool}",
            lambda: subprocess.run(query, capture_output=True, text=True, timeout=_SMI_S, check=False),  # noqa: S603
        )
    except (driver_calls.DriverSilent, subprocess.TimeoutExpired):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()] if done.returncode == 0 else []


def _driver() -> str:
    try:
        found = re.search(r"\b\d+\.\d+(\.\d+)*\b", _DRIVER.read_text())
    except OSError:
        return "unknown"
    return found[0] if found else "unknown"


def possible_profiles(models: list[str]) -> list[str]:
    """CPU profiles that have a core per rank, and GPU profiles whose GPUs this machine has."""
    return [profile.name for profile in profiles.profiles().values() if _is_possible(profile, models)]


def _is_possible(profile: Profile, models: list[str]) -> bool:
    if not profile.is_on_gpus:
        return len(os.sched_getaffinity(0)) >= profile.world_size
    if profile.shares_gpu:
        try:
            return gpus.capability(profile) > 0
        except EvaluatorError:
            return False
    machine = machines()[profile.machine]
    return sum(map(machine.is_named, models)) >= profile.gpus
