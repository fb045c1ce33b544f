"""The machine code of built extensions as text, made in a sandbox: the modules are a stranger's."""

import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from evaluator.contract import SandboxLevel
from evaluator.hardware.profiles import Profile
from evaluator.host.sandbox import Confinement, command, environment, write_private
from evaluator.host.settings import JudgeSettings

_EXECUTE = """import os, sys
os.environ["PATH"] = os.path.dirname(sys.argv[1]) + ":" + os.environ["PATH"]
os.execv(sys.argv[1], sys.argv[1:])"""
"""cuobjdump starts nvdisasm, which lies beside it and is looked for on PATH."""

READING = "sass, ptx, symbols"
"""What is read of a module: builds that were read differently are read again."""

_LONGEST_S = 60
_MOST_BYTES = 64 * 1024**2


def listings(
    artefacts: Mapping[str, bytes],
    *,
    confinement: Confinement,
    profile: Profile,
    settings: JudgeSettings,
    workdir: Path,
) -> Iterator[tuple[str, str]]:
    """Name and disassembly (SASS, and PTX where there is some) of every module that can be read in time.

    Nothing is given where this node has no cuobjdump, and for a module whose listing takes over a minute or 64 MB:
    what it uses is then told by the source alone.
    """
    tool = _tool()
    if tool is None or not artefacts:
        return
    with tempfile.TemporaryDirectory(prefix="disassembly-", dir=workdir) as name:
        private = Path(name)
        write_private(private)
        for path, content in artefacts.items():
            place = private / "built" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            text = _listing(tool, path, private=private, confinement=confinement, profile=profile, settings=settings)
            if text is not None:
                yield Path(path).name, text


def _listing(
    tool: str, path: str, *, private: Path, confinement: Confinement, profile: Profile, settings: JudgeSettings
) -> str | None:
    bare = confinement.level is SandboxLevel.NONE
    module = str(private / "built" / path) if bare else f"/built/{path}"
    line = command(
        confinement,
        ["-c", _EXECUTE, tool, "-sass", "-ptx", module],
        private=private,
        profile=profile,
        settings=settings,
    )
    with tempfile.TemporaryFile(dir=private) as output:
        try:
            done = subprocess.run(  # noqa: S603 - our own command, no shell
                ["prlimit", f"--fsize={_MOST_BYTES}", "--core=0", *line],  # noqa: S607
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
                env=environment(profile, home=str(private)) if bare else {},
                timeout=_LONGEST_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode != 0:
            return None
        output.seek(0)
        return output.read(_MOST_BYTES).decode(errors="replace")


def _tool() -> str | None:
    """The cuobjdump of the tool kit, or of the package nvidia-cuda-cuobjdump beside the interpreter's others."""
    packaged = sorted(Path(sysconfig.get_path("purelib"), "nvidia").glob("cu*/bin"))
    folders = [os.environ.get("PATH", ""), "/usr/local/cuda/bin", *map(str, packaged)]
    return shutil.which("cuobjdump", path=":".join(folders))
