"""Which GPUs a slot uses, told from the device nodes."""

import re
from pathlib import Path

from evaluator.errors import EvaluatorError
from evaluator.hardware.profiles import Profile

_NODE = re.compile(r"nvidia(\d+)")


def present() -> tuple[int, ...]:
    """The minor numbers of this machine's NVIDIA GPUs."""
    found = (_NODE.fullmatch(path.name) for path in Path("/dev").iterdir())
    return tuple(sorted(int(match[1]) for match in found if match))


def gpus_for(profile: Profile) -> tuple[int, ...]:
    """The GPUs of a slot of this profile; empty on a CPU profile.

    Raises:
        EvaluatorError: the machine has fewer than the profile's world size.
    """
    if profile.device != "cuda":
        return ()
    gpus = present()
    if len(gpus) < profile.world_size:
        raise EvaluatorError(f"profile {profile.name} needs {profile.world_size} GPUs, this machine has {len(gpus)}")
    return gpus[: profile.world_size]
