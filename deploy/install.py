"""Set-up of the machine: the virtual environment, its packages, and the programs that come from Debian.

Called by the Makefile before anything else exists, so it needs the standard library only. `python3 deploy/install.py
site` installs what `make run` needs, `... tests` what `make test` and `make check` need. What is already there is left
alone: a stamp in `.venv` holds the hash of the requirements it was made from.
"""

import argparse
import compileall
import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
REQUIREMENTS = {
    "site": ("requirements.txt",),
    "tests": ("requirements.txt", "requirements-dev.txt"),
}
# Debian package by the program or shared library that we look for; some of them live outside PATH.
PROGRAMS = {
    "site": {"bwrap": "bubblewrap", "libseccomp.so.2": "libseccomp2"},
    "tests": {
        "bwrap": "bubblewrap",
        "libseccomp.so.2": "libseccomp2",
        "chromium": "chromium",
        "redis-server": "redis-server",
        "initdb": "postgresql",
        "caddy": "caddy",
        "docker-compose": "docker-compose",
        "promtool": "prometheus",
    },
}
WITHOUT_PROGRAM = {
    "bwrap": "without it there is no sandbox, and nothing is judged here",
    "libseccomp.so.2": "without it there is no sandbox, and nothing is judged here",
    "chromium": "the browser tests cannot run",
    "redis-server": "the tests of the Redis broker cannot run",
    "initdb": "the tests on PostgreSQL cannot run",
    "caddy": "the tests of the production proxy cannot run",
    "docker-compose": "`make check` cannot read deploy/compose.yaml",
    "promtool": "`make check` cannot try the alerts, and the tests of metrics cannot run",
}


def main() -> int:
    """Install what the named purpose needs; return 0, or 1 after saying what is missing and what to do."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("purpose", choices=sorted(REQUIREMENTS))
    purpose = parser.parse_args().purpose
    try:
        make_environment()
        install_programs(purpose)
        install_packages(purpose)
    except subprocess.CalledProcessError as error:
        say(f"stopped: `{' '.join(map(str, error.cmd))}` ended with status {error.returncode}; its messages are above")
        return 1
    return 0


def say(text: str) -> None:
    """Print a line for the person at the terminal, at once."""
    sys.stderr.write(f"setup: {text}\n")
    sys.stderr.flush()


def install_programs(purpose: str) -> None:
    """Install the missing programs from Debian where we are root, else say what is missing and what that means."""
    missing = missing_programs(purpose)
    if not missing or recorded(f"{purpose}-programs") == hash_of(*missing):
        return  # complete, or already said
    if can_install():
        apt_install(*(PROGRAMS[purpose][program] for program in missing))
        missing = missing_programs(purpose)
    for program in missing:
        package = PROGRAMS[purpose][program]
        say(f"{program} is missing: {WITHOUT_PROGRAM[program]}. To change that: apt-get install {package}, as root.")
    record(f"{purpose}-programs", hash_of(*missing))


def missing_programs(purpose: str) -> list[str]:
    """The programs that this purpose wants and the machine does not have."""
    return sorted(program for program in PROGRAMS[purpose] if not is_here(program))


def is_here(name: str) -> bool:
    """Whether the machine has a program, or a shared library."""
    if ".so." not in name:
        return find_program(name) is not None
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def find_program(name: str) -> Path | None:
    """Where a program is: on PATH, or where Debian puts the servers."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/bin")
    if found:
        return Path(found)
    return next(iter(sorted(Path("/usr/lib").glob(f"postgresql/*/bin/{name}"), reverse=True)), None)


def can_install() -> bool:
    """Whether Debian packages can be installed here."""
    return hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get") is not None


def apt_install(*packages: str) -> None:
    """Install Debian packages; a failure is reported by whoever looks for the programs afterwards."""
    say(f"installing Debian packages: {' '.join(packages)}")
    if not apt("install", "-y", "--no-install-recommends", *packages):
        apt("update")
        apt("install", "-y", "--no-install-recommends", *packages)


def apt(*arguments: str) -> bool:
    """Run apt-get without questions; True when it succeeded."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(["apt-get", "-qq", *arguments], env=environment, stdout=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def make_environment() -> None:
    """Make `.venv` with this Python unless a usable one is there."""
    if (
        PYTHON.exists()
        and subprocess.run([PYTHON, "-m", "pip", "-V"], capture_output=True, check=False).returncode == 0
    ):
        return
    say(f"making .venv with Python {sys.version.split()[0]}")
    make = [sys.executable, "-m", "venv", "--clear", str(VENV)]
    if subprocess.run(make, capture_output=True, check=False).returncode == 0:
        return
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    if can_install():
        apt_install(package)
    else:
        say(f"this Python cannot make virtual environments; on Debian: apt-get install {package}, as root")
    subprocess.run(make, check=True)


def install_packages(purpose: str) -> None:
    """Install the pinned requirements unless the stamp says that these very ones are in."""
    files = REQUIREMENTS[purpose]
    wanted = hash_of(*((ROOT / name).read_text() for name in files))
    if recorded(purpose) == wanted:
        return
    say(f"installing {', '.join(files)}; the first time this takes a few minutes")
    install_torch()
    # Compiling afterwards on all cores is faster than pip's own pass; ranks in a sandbox could not write it later.
    options = ["--quiet", "--no-compile", "--no-warn-script-location"]
    subprocess.run([*PIP, *options, *(f"-r{ROOT / name}" for name in files)], check=True)
    compile_packages()
    record(purpose, wanted)
    if purpose == "tests":
        record("site", hash_of(*((ROOT / name).read_text() for name in REQUIREMENTS["site"])))


PIP = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check"]


def install_torch() -> None:
    """Take torch alone from the index in PKB_TORCH_INDEX, where one is set; everything else comes from pip's own."""
    index = os.environ.get("PKB_TORCH_INDEX")
    if not index:
        return
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    torch = next(line for line in lines if line.startswith("torch=="))
    subprocess.run([*PIP, "--quiet", "--no-compile", "--no-deps", "--index-url", index, torch], check=True)


def compile_packages() -> None:
    """Write the bytecode of everything installed, with as many processes as there are cores."""
    for packages in (VENV / "lib").glob("python3*/site-packages"):
        compileall.compile_dir(packages, quiet=2, workers=0)


def hash_of(*texts: str) -> str:
    """A hash over the texts and the Python that the environment is made with."""
    return hashlib.sha256("\0".join((sys.version, *texts)).encode()).hexdigest()


def recorded(stamp: str) -> str:
    """What the stamp of that name says, or nothing."""
    path = VENV / f".{stamp}.stamp"
    return path.read_text() if path.is_file() else ""


def record(stamp: str, content: str) -> None:
    """Write the stamp of that name."""
    (VENV / f".{stamp}.stamp").write_text(content)


if __name__ == "__main__":
    sys.exit(main())
