"""Hardware and world size together, as data: what each profile is, requires and can judge.

Datasheet peaks are per GPU, dense, without sparsity. Sources:
NVIDIA H100 Tensor Core GPU datasheet (SXM5), NVIDIA H200 Tensor Core GPU datasheet (SXM), NVIDIA DGX B200
datasheet (per-GPU share). NVLink figures there are bidirectional totals; a one-way figure is half.
"""

from dataclasses import dataclass, replace
from functools import cache

import msgspec

from evaluator.contract import Backend, ClockKind, Mode, SandboxLevel, TimingRules


@dataclass(frozen=True, kw_only=True)
class Peaks:
    """Ceilings of one GPU: FLOP/s by arithmetic, bytes/s of device memory, bytes/s one way on NVLink, L2 cache bytes.

    `source` names where the rates come from, and `l2_source` where the size of the L2 cache does.
    """

    bf16_flops: float
    fp8_flops: float
    fp32_flops: float
    fp64_flops: float
    memory_bytes_s: float
    wire_bytes_s: float
    l2_bytes: int
    source: str
    l2_source: str


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
        sizes: the sizes that each mode judges, the smallest first.
        is_ranked_by_speed: False for practice boards, which rank by correctness; times are indicative there.
        sandbox: the level that ranked public work requires.
        multicast: whether NVLink multicast may be used.
        rules: how times are taken, and their uncertainty; see `timing_rules`.
        timing_policy: special calls, and tolerances while timing.
        cross_check: the profile of the same machine on which a passed check is repeated; "" for none.
    """

    name: str
    title: str
    device: str
    gpu: str | None
    world_size: int
    process_group: str
    backends: tuple[Backend, ...]
    sizes: dict[Mode, tuple[str, ...]]
    is_ranked_by_speed: bool
    sandbox: SandboxLevel
    multicast: bool
    rules: TimingRules
    timing_policy: TimingPolicy
    peaks: Peaks | None
    cross_check: str = ""

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


_MIB = 1024 * 1024

_H100 = Peaks(
    bf16_flops=989.5e12,
    fp8_flops=1979e12,
    fp32_flops=67e12,
    fp64_flops=34e12,
    memory_bytes_s=3.35e12,
    wire_bytes_s=450e9,
    l2_bytes=50 * _MIB,
    source="NVIDIA H100 datasheet, SXM5: 1,979 TFLOPS bf16 sparse (half of it dense), 3.35 TB/s, NVLink 900 GB/s",
    l2_source="NVIDIA H100 Tensor Core GPU Architecture, whitepaper: 50 MB in the SXM5 board",
)
_H200 = replace(  # the same chip with other memory
    _H100,
    memory_bytes_s=4.8e12,
    l2_bytes=60 * _MIB,
    source="NVIDIA H200 datasheet, SXM: 1,979 TFLOPS bf16 sparse (half of it dense), 4.8 TB/s, NVLink 900 GB/s",
    l2_source="the driver (torch.cuda.get_device_properties) reports 60 MB for an H200; its datasheet is silent",
)
_B200 = Peaks(
    bf16_flops=2250e12,
    fp8_flops=4500e12,
    fp32_flops=75e12,
    fp64_flops=37e12,
    memory_bytes_s=7.7e12,
    wire_bytes_s=900e9,
    l2_bytes=126 * _MIB,
    source="NVIDIA DGX B200 and HGX B200 datasheets, one eighth: 2.25 PFLOPS bf16 dense, 7.7 TB/s, NVLink 1.8 TB/s",
    l2_source="NVIDIA Blackwell Tuning Guide: 126 MB",
)


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
        cross_check="cpux4" if world_size == 2 else "cpux2",
    )


def _gpus(model: str, world_size: int, peaks: Peaks, *, multicast: bool) -> Profile:
    suffix = "" if multicast else "-nomc"
    return Profile(
        name=f"{model.lower()}x{world_size}{suffix}",
        title=f"{world_size} x {model}" + ("" if multicast else ", multicast off"),
        device="cuda",
        gpu=model,
        world_size=world_size,
        process_group="nccl",
        backends=tuple(Backend),
        sizes={
            Mode.CHECK: ("tiny", "base"),
            Mode.PROFILE: ("tiny", "base"),
            Mode.BENCHMARK: ("base", "large"),
            Mode.RANKED: ("base", "large"),
        },
        is_ranked_by_speed=True,
        sandbox=SandboxLevel.FULL,
        multicast=multicast,
        rules=_GATED,
        timing_policy=_WATCHED,
        peaks=peaks,
    )


@cache
def profiles() -> dict[str, Profile]:
    """Every profile by name."""
    machines = (
        ("H100", 4, _H100),
        ("H100", 8, _H100),
        ("H200", 2, _H200),
        ("H200", 4, _H200),
        ("H200", 8, _H200),
        ("B200", 8, _B200),
    )
    every = [_practice(2), _practice(4)]
    for model, world_size, peaks in machines:
        every += [_gpus(model, world_size, peaks, multicast=multicast) for multicast in (True, False)]
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


_ARCHITECTURES = {"H100": "90a", "H200": "90a", "B200": "100a"}
"""Compute capability of each GPU as nvcc writes it, with the instructions of that generation alone."""


def architectures(profile: Profile) -> tuple[str, ...]:
    """What CUDA submissions are compiled for on `profile`; empty on a profile without GPUs."""
    return () if profile.gpu is None else (_ARCHITECTURES[profile.gpu],)


def capability(profile: Profile) -> int:
    """The compute capability of `profile`'s GPUs as one number (90 for sm_90); 0 on a profile without GPUs."""
    return 0 if profile.gpu is None else int(_ARCHITECTURES[profile.gpu].rstrip("a"))
