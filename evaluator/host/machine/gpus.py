"""Which GPUs a slot uses, by the device nodes, and what they are."""

import functools
import os
import re
from pathlib import Path

from evaluator.errors import EvaluatorError
from evaluator.hardware.profiles import LEAST_CAPABILITY, Profile, architecture
from evaluator.host.machine import driver_calls, nvml
from problems.spec.memory import held_bytes
from problems.spec.schema import Problem

CHOICE = "PKB_NODE_GPUS"
"""The environment variable with the minor numbers of the GPUs that a node may use, for two nodes on one machine."""

ROLES = 4
"""How many ranks share a GPU for every one of the profile: oracle, reference, recorder, and the sandbox's."""

RANK_BYTES = 1_100_000_000
"""What one of them holds beside tensors, as its context and NCCL's buffers: 1.0 to 1.2 GB on an H200, November 2026."""

_PROCESSORS, _LEAST_SPARE, _MOST_SPARE = 8, 2, 4
"""Groups start ahead where there are so many processors, and how many of them at least and at most."""

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
    """Variables that make CUDA outside a sandbox count the profile's GPUs from 0; empty where they are the first ones.

    A sandbox has no other device nodes, so CUDA counts only the profile's GPUs there.

    Raises:
        EvaluatorError: there are too few GPUs, the driver does not list one of them, or it does not answer.
    """
    is_one_of_many = profile.shares_gpu and len(everywhere()) > 1
    if not profile.is_on_gpus or not (is_one_of_many or os.environ.get(CHOICE, "").strip()):
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
        EvaluatorError: the machine has fewer than the profile needs.
    """
    if not profile.is_on_gpus:
        return ()
    gpus = present()
    if len(gpus) < profile.gpus:
        raise EvaluatorError(
            f"profile {profile.name} needs {profile.gpus} GPU{'s' * (profile.gpus > 1)}, this machine has {len(gpus)}"
        )
    return gpus[: profile.gpus]


def capability(profile: Profile) -> int:
    """The compute capability of the slot's GPUs, such as 90; 0 on a CPU profile.

    Raises:
        EvaluatorError: ranks are to share a GPU that is too old, or of which the driver does not tell it.
    """
    if profile.capability or not profile.is_on_gpus:
        return profile.capability
    [minor] = gpus_for(profile)
    _, found = _identity(minor)
    if found < LEAST_CAPABILITY:
        raise EvaluatorError(
            f"profile {profile.name} needs a GPU of compute capability 8.0 or newer; GPU {minor} has "
            f"{found // 10}.{found % 10}"
        )
    return found


def architectures(profile: Profile) -> tuple[str, ...]:
    """What CUDA submissions are compiled for on this node, as nvcc writes it; raises as `capability`."""
    number = capability(profile)
    return (architecture(number),) if number else ()


def shared_model(profile: Profile) -> str:
    """The driver's name of the GPU that all ranks share; raises EvaluatorError."""
    return _identity(gpus_for(profile)[0])[0]


@functools.cache
def _identity(minor: int) -> tuple[str, int]:
    try:
        return nvml.identity(minor)
    except nvml.Unavailable as reason:
        raise EvaluatorError(f"nothing says what GPU {minor} is: {reason}") from reason


def refuse_small(profile: Profile) -> None:
    """Raise EvaluatorError where the ranks that share a GPU do not fit into its free memory, before any starts."""
    for state in nvml.read(gpus_for(profile)) if profile.shares_gpu else ():
        if why := shortage(profile, state):
            raise EvaluatorError(why)


def shortage(profile: Profile, state: nvml.GpuState) -> str:
    """Why the ranks of `profile` cannot share this GPU as it is now; empty where its free memory suffices."""
    needed, free = ROLES * profile.world_size * RANK_BYTES, state.total_bytes - state.used_bytes
    if free >= needed:
        return ""
    return (
        f"the {profile.world_size} ranks of profile {profile.name} need {needed / 1e9:.1f} GB of GPU memory before any "
        f"submission, and GPU {state.index} has {free / 1e9:.1f} GB free of {state.total_bytes / 1e9:.1f} GB: use a "
        "profile with fewer ranks, or end what else uses the GPU"
    )


def too_large(problem: Problem, profile: Profile, size: str, state: nvml.GpuState) -> str:
    """Why inputs and outputs of all ranks do not fit into the GPU that they share; empty where they may.

    The judge makes inputs and expected outputs beside the memory that ranks read and write, so they count twice; one
    rank in turn computes with as much again.
    """
    held = 2 * held_bytes(problem, problem.dims(size, profile.world_size))
    needed = profile.world_size * (ROLES * RANK_BYTES + held) + held
    if needed <= state.total_bytes:
        return ""
    return (
        f"the {profile.world_size} ranks of profile {profile.name} need {needed / 1e9:.1f} GB of GPU memory at size "
        f"{size}, and GPU {state.index} has {state.total_bytes / 1e9:.1f} GB: choose a profile of several GPUs"
    )


def spare_groups(profile: Profile) -> int:
    """How many worker groups may start their ranks while another one is judged; 0 where that would disturb times.

    A group needs some seconds of a processor for every rank. On 16 processors: 4 of 2 ranks, 2 of 4 or 8.
    """
    processors = len(os.sched_getaffinity(0))
    if not profile.shares_gpu or processors < _PROCESSORS:
        return 0
    wanted = max(_LEAST_SPARE, min(_MOST_SPARE, processors // (2 * profile.world_size)))
    for state in nvml.read(gpus_for(profile)):
        room = state.total_bytes - state.used_bytes - ROLES * profile.world_size * RANK_BYTES
        wanted = min(wanted, max(0, room // (profile.world_size * RANK_BYTES)))
    return wanted


def everywhere() -> tuple[int, ...]:
    """The minor numbers of all NVIDIA GPUs of this machine."""
    found = (_NODE.fullmatch(path.name) for path in Path("/dev").iterdir())
    return tuple(sorted(int(match[1]) for match in found if match))
