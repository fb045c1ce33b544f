"""Hardware and world size together, as data: what each profile is, requires and can judge.

Profiles of GPUs come from the machine files, times world sizes and multicast. Others let all ranks share one GPU of any
model, and others need none.
"""

from dataclasses import dataclass
from functools import cache

import msgspec

from evaluator.contract import Backend, ClockKind, Mode, SandboxLevel, TimingRules
from evaluator.hardware.machines import Machine, Peaks, machines

LEAST_CAPABILITY = 80
"""Of a GPU that ranks may share: compute capability 8.0, the first with bfloat16 and asynchronous copies."""


@dataclass(frozen=True, kw_only=True)
class TimingPolicy:
    """How a profile makes special calls, and what it tolerates while it times.

    Attributes:
        skew_us: least and largest delay of a rank in a skewed call.
        special_calls: calls per series that are skewed, or differ in a few elements from the one before, in turn.
        busy_cores_per_rank: how many processors a rank and its children may keep busy while the reference is timed;
            the ranks are counted together.
        second_group_share: the share of the series that a second worker group runs again; 0 for none.
    """

    skew_us: tuple[int, int]
    special_calls: int
    busy_cores_per_rank: float
    second_group_share: float


_PRACTICE = TimingPolicy(
    skew_us=(15_000, 40_000),
    special_calls=8,
    busy_cores_per_rank=0.02,
    # A worker group takes about 2 s to start on two cores, which is more than a practice board is worth.
    second_group_share=0.0,
)
_WATCHED = TimingPolicy(
    skew_us=(50, 500),
    special_calls=4,
    # Ranks busy-poll between calls, and communication libraries keep polling threads. On 2 H200 (21 November 2026)
    # honest submissions used 0.7 to 1.0 per rank; one that burnt all processors of its own used 7.
    busy_cores_per_rank=2.5,
    second_group_share=0.25,
)


# Practice times are indicative: two busy cores answer late by milliseconds.
_ANSWERED = TimingRules(
    clock=ClockKind.ANSWER,
    resolution_us=20.0,
    start_share=0.05,
    start_us=50.0,
    waiting_share=0.05,
    judges_throttling=False,
)
# References judged as submissions on 2 H200 (24 November 2026, torch 2.11.0+cu130, shared hosts). Two sets of ranks
# differed by 1.5 us at `base` (root mean square of 29 judgements, programs that queue all their work), and by 8.8 % for
# programs that wait for the device (25 sizes; without three in which new shapes decided, which the scatter shows). At
# `large` it was 0.4 % on 22 November (13), and the median was 0.1 % now. Each side has its part: less by root two.
_GATED = TimingRules(
    clock=ClockKind.GATE,
    resolution_us=2.0,
    start_share=0.003,
    start_us=1.0,
    waiting_share=0.08,
    judges_throttling=True,
)


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One board: a kind of machine at one world size.

    Attributes:
        machine: the name of the machine file; "" without.
        gpu: the model of its GPUs; None on CPU ranks, and where ranks share a GPU of any model.
        gpus: how many GPUs it occupies.
        capability: their compute capability, such as 90; 0 without GPUs, and where the node's own decides.
        sizes: the sizes that each mode judges, the smallest first; in mode sweep, those around which axes have points.
        is_ranked_by_speed: False for practice boards, which rank by correctness.
        measures_time: False where ranks share a GPU: a ranked evaluation tries every size there and times nothing. On
            other practice boards times are indicative.
        sandbox: the level that ranked public work requires.
        multicast: whether NVLink multicast may be used.
        rules: how times are taken, and their uncertainty; see `timing_rules`.
        timing_policy: special calls, and tolerances while timing.
        cross_check: the profile of the same machine on which a passed check is repeated; "" for none.
        peer_access: whether a GPU can address the memory of another one.
        tried: on what hardware this judge ever ran for it, in words; "" for never.
    """

    name: str
    title: str
    device: str
    machine: str = ""
    gpu: str | None
    gpus: int = 0
    capability: int = 0
    world_size: int
    process_group: str
    backends: tuple[Backend, ...]
    sizes: dict[Mode, tuple[str, ...]]
    is_ranked_by_speed: bool
    measures_time: bool = True
    sandbox: SandboxLevel
    multicast: bool
    rules: TimingRules
    timing_policy: TimingPolicy
    peaks: Peaks | None
    cross_check: str = ""
    peer_access: bool = True
    tried: str = ""

    @property
    def is_on_gpus(self) -> bool:
        """Whether its ranks have GPUs, of their own or one that they share."""
        return self.device == "cuda"

    @property
    def shares_gpu(self) -> bool:
        """Whether all ranks share one GPU."""
        return self.is_on_gpus and self.gpus < self.world_size

    @property
    def known_sizes(self) -> tuple[str, ...]:
        """Every size that some mode judges, the smallest first: what an author may choose in mode profile."""
        return tuple(dict.fromkeys(size for mode in Mode for size in self.sizes[mode]))

    def timing_rules(self) -> TimingRules:
        """How times become a score here, and when they count."""
        busy_cores = self.timing_policy.busy_cores_per_rank * self.world_size
        return msgspec.structs.replace(self.rules, busy_cores=busy_cores)


class UnknownProfile(LookupError):
    """No profile has this name; the message lists the known ones."""


def _practice(world_size: int) -> Profile:
    return Profile(
        name=f"cpux{world_size}",
        title=f"{world_size} CPU ranks (practice)",
        device="cpu",
        gpu=None,
        world_size=world_size,
        process_group="gloo",
        backends=(Backend.PYTORCH,),
        sizes=dict.fromkeys(Mode, ("tiny",)),
        is_ranked_by_speed=False,
        sandbox=SandboxLevel.REDUCED,
        multicast=False,
        rules=_ANSWERED,
        timing_policy=_PRACTICE,
        peaks=None,
        tried="many machines",
        cross_check="cpux4" if world_size == 2 else "cpux2",
    )


def _shared(world_size: int) -> Profile:
    """All ranks on one GPU of any model: right or wrong is the same there, and times say nothing."""
    return Profile(
        name=f"gpu1r{world_size}",
        title=f"{world_size} ranks on one GPU (practice)",
        device="cuda",
        gpu=None,
        gpus=1,
        world_size=world_size,
        process_group="nccl",
        # NCCL's device API reaches peers of one host, and ranks on one GPU are different hosts to NCCL. NVSHMEM ended
        # both ranks on one H100 with exit code 255 (26 November 2026, torch 2.11.0).
        backends=(Backend.PYTORCH, Backend.CUDA, Backend.TRITON),
        sizes=dict.fromkeys(Mode, ("tiny", "base")) | {Mode.PUBLISHED: ("base",)},
        is_ranked_by_speed=False,
        measures_time=False,
        sandbox=SandboxLevel.REDUCED,
        multicast=False,
        rules=_ANSWERED,
        timing_policy=_PRACTICE,
        peaks=None,
        tried="one H100 of 80 GB and one H200, 26 to 29 November 2026",
    )


def _of_machine(name: str, machine: Machine, world_size: int, *, multicast: bool) -> Profile:
    suffix = "" if multicast else "-nomc"
    return Profile(
        name=f"{name}x{world_size}{suffix}",
        title=f"{world_size} x {machine.model}" + ("" if multicast else ", multicast off"),
        device="cuda",
        machine=name,
        gpu=machine.model,
        gpus=world_size,
        capability=int(machine.capability.replace(".", "")),
        world_size=world_size,
        process_group="nccl",
        backends=tuple(each for each in Backend if each is not Backend.PARALLELKITTENS),
        sizes={
            Mode.CHECK: ("tiny", "base"),
            Mode.PROFILE: ("tiny", "base"),
            Mode.BENCHMARK: ("base", "large"),
            Mode.RANKED: ("base", "large"),
            Mode.SWEEP: ("base",),
            Mode.PUBLISHED: ("base",),
        },
        is_ranked_by_speed=True,
        sandbox=SandboxLevel.FULL,
        multicast=multicast,
        rules=_GATED,
        timing_policy=_WATCHED,
        peaks=machine.peaks,
        peer_access=machine.links.peer_access,
        tried=machine.tried,
    )


@cache
def profiles() -> dict[str, Profile]:
    """Every profile by name; raises MachineFileError where a machine file is wrong."""
    every = [_practice(2), _practice(4), _shared(2), _shared(4), _shared(8)]
    for name, machine in machines().items():
        for world_size in machine.world_sizes:
            ways = (True, False) if machine.links.multicast else (False,)
            every += [_of_machine(name, machine, world_size, multicast=way) for way in ways]
    return {profile.name: profile for profile in every}


def get(name: str) -> Profile:
    """The profile called `name`.

    Raises:
        UnknownProfile: there is none.
    """
    try:
        return profiles()[name]
    except KeyError:
        raise UnknownProfile(f"there is no profile called {name!r}; known are {', '.join(profiles())}") from None


def architecture(capability: int) -> str:
    """What nvcc calls a compute capability, with the instructions of that generation alone where there are some."""
    return f"{capability}a" if capability >= 90 else str(capability)
