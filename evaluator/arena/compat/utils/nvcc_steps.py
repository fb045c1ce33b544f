"""The steps of one nvcc command with host and device side by side, which nvcc itself runs one after the other.

`nvcc --dryrun` lists its steps as shell commands. For one architecture, two front ends read the same source: cudafe++
for the host and cicc for the device. The host compiler then needs the output of both. Both use one name for the module,
which cudafe++ makes. Here it is made before either runs.
"""

import hashlib
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

_PATTERNS = {
    "host text": r".* -E .*\.cpp4\.ii\"",
    "host": r"\"?\S*cudafe\+\+\"? .* --gen_module_id_file .*--module_id_file_name \"(?P<module>[\w.]+)\"",
    "device text": r".* -E .*\.cpp1\.ii\"",
    "device": r"\"?\S*cicc\"? ",
    "assemble": r"\"?\S*ptxas\"? ",
    "embed": r"\"?\S*fatbinary\"? ",
    "object": r".* -c -x c\+\+ .*\.cudafe1\.cpp\"",
}
_VARIABLE = re.compile(r"([A-Z_]+)=(.*)")


def side_by_side(command: Sequence[str], *, folder: Path) -> list[str] | None:
    """A shell command with the same outcome as the nvcc `command`, run in `folder`; None where its steps are others."""
    # With threads of its own nvcc hides what the steps print.
    plain = [part for part in command if not part.startswith("--threads")]
    done = subprocess.run([*plain, "--dryrun", "--keep"], cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 - see cuda_build
    lines = [line.removeprefix("#$ ") for line in done.stderr.splitlines() if line.startswith("#$ ")]
    variables = [found for line in lines if (found := _VARIABLE.fullmatch(line))]
    steps = _recognised([line for line in lines if not _VARIABLE.fullmatch(line)])
    if done.returncode != 0 or steps is None:
        return None
    (folder / steps.pop("module")).write_text(_module_name(folder, command))
    return ["sh", "-ec", _script(variables, steps)]


def _recognised(lines: list[str]) -> dict[str, str] | None:
    """The steps by name, and the file of the module's name; None if there are fewer, more or others."""
    found = {name: line for name, pattern in _PATTERNS.items() for line in lines if re.match(pattern, line)}
    if len(lines) != len(_PATTERNS) or len(found) != len(_PATTERNS) or set(found.values()) != set(lines):
        return None
    host = re.match(_PATTERNS["host"], found["host"])
    assert host is not None
    return {**found, "host": found["host"].replace(" --gen_module_id_file", ""), "module": host["module"]}


def _module_name(folder: Path, command: Sequence[str]) -> str:
    """A name like nvcc's own; it keeps variables of files that are linked together distinct."""
    digest = hashlib.sha256("\0".join((str(folder), *command)).encode()).hexdigest()
    return f"_{digest[:8]}_1_x_cu_{digest[8:16]}"


def _script(variables: list[re.Match[str]], steps: dict[str, str]) -> str:
    return "\n".join(
        (
            *(f"export {variable[1]}='{variable[2]}'" for variable in variables),
            "(", steps["host text"], steps["host"], ") & host=$!",
            "(", steps["device text"], steps["device"], steps["assemble"], steps["embed"], ") & device=$!",
            "failed=0", "wait $host || failed=1", "wait $device || failed=1", "test $failed = 0",
            steps["object"],
        )
    )  # fmt: skip
