"""Which GPUs a slot uses, by the device nodes."""

import os
import re
from pathlib import Path

from evaluator.errors import EvaluatorError
from evaluator.hardware.profiles import Profile
from evaluator.host.machine import driver_calls, nvml

CHOICE = "PKB_NODE_GPUS"
"""The environment variable with the minor numbers of the GPUs that a node may use, for two nodes on one machine."""

_NODE = re.compile(r"nvidia(\d+)")


def present() -> tuple[int, ...]:
    """The minor numbers of this machine's NVIDIA GPUs, or those of them that PKB_NODE_GPUS lets this process use.

    Raises:
        EvaluatorError: PKB_NODE_GPUS is not a list of numbers separated by commas.
    """
    every = everywhere()
    text = os.environ.get(CHOICE, "").strip()
    if not text:
        return every
    try:
        chosen = {int(number) for number in text.split(",")}
    except ValueError as error:
        raise EvaluatorError(
            f"{CHOICE}={text} is not a list of GPUs; write the numbers N of /dev/nvidiaN, separated by commas"
        ) from error
    return tuple(number for number in every if number in chosen)


def environment(profile: Profile) -> dict[str, str]:
    """Variables that make CUDA outside a sandbox count the profile's GPUs from 0; empty without PKB_NODE_GPUS.

    A sandbox has no other device nodes, so CUDA counts only the profile's GPUs there.

    Raises:
        EvaluatorError: there are too few GPUs, the driver does not list one of them, or it does not answer.
    """
    if profile.device != "cuda" or not os.environ.get(CHOICE, "").strip():
        return {}
    order = nvml.order()
    if not order and (silence := driver_calls.silence()):
        raise EvaluatorError(f"{silence}, so nobody can know which GPUs {CHOICE} means")
    order = order or everywhere()
    chosen = gpus_for(profile)
    if unknown := set(chosen) - set(order):
        raise EvaluatorError(f"the driver does not list GPU {min(unknown)}, which {CHOICE} names")
    indices = [str(order.index(minor)) for minor in chosen]
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(indices)}


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


def everywhere() -> tuple[int, ...]:
    """The minor numbers of all NVIDIA GPUs of this machine."""
    found = (_NODE.fullmatch(path.name) for path in Path("/dev").iterdir())
    return tuple(sorted(int(match[1]) for match in found if match))
