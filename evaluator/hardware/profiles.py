"""Hardware and world size together, as data: what each profile is, demands and can judge.

Datasheet peaks are per GPU, dense, without sparsity. Sources:
NVIDIA H100 Tensor Core GPU datasheet (SXM5), NVIDIA H200 Tensor Core GPU datasheet (SXM), NVIDIA DGX B200
datasheet (per-GPU share). NVLink figures there are bidirectional totals; a one-way figure is half.
"""

from dataclasses import dataclass
from functools import cache

from evaluator.contract import Backend, Mode, SandboxLevel, SlotKind, TimingRules


@dataclass(frozen=True, kw_only=True)
class Peaks:
    """Datasheet ceilings of one GPU: FLOP/s by arithmetic, bytes/s of device memory, bytes/s one way on NVLink."""

    bf16_flops: float
    fp8_flops: float
    fp32_flops: float
    fp64_flops: float
    memory_bytes_s: float
    wire_bytes_s: float
    source: str


@dataclass(frozen=True, kw_only=True)
class Vigilance:
    """How closely a profile watches the timed calls; start values, but for those of the practice boards.

    Attributes:
        band_us, band_bytes_us, settle_ratio, settle_jitter_us: as in the contract's `TimingRules`.
        device_band_us, device_band_bytes_us: the first two where contents stay in device memory.
        reading_us, burst_ratio, burst_us, burst_most_us, burst_bytes_us: as in the contract's `TimingRules`.
        bursts: bursts of several calls in a series, each beside one of a single call; 0 for none.
        burst_calls: the most calls of a burst.
        skew_us: least and largest delay of a rank in a skewed call.
        special_calls: calls per series that are skewed, or differ in a few elements from the one before, in turn.
        busy_cores_per_rank: how many processors a rank may keep busy while the reference is timed, with all that it
            started; the ranks are counted together.
        second_gang_share: the share of the series that a second gang runs again; 0 for none.
    """

    band_us: float
    band_bytes_us: float
    device_band_us: float
    device_band_bytes_us: float
    reading_us: float
    burst_us: float
    burst_most_us: float
    burst_ratio: float
    burst_bytes_us: float
    bursts: int
    burst_calls: int
    settle_ratio: float | None
    settle_jitter_us: float
    skew_us: tuple[int, int]
    special_calls: int
    busy_cores_per_rank: float
    second_gang_share: float


_PRACTICE = Vigilance(
    # Two busy cores answer late by milliseconds, and times are indicative there: only gross forgery is refused.
    band_us=30_000.0,
    band_bytes_us=50.0,
    device_band_us=30_000.0,
    device_band_bytes_us=50.0,
    reading_us=10_000.0,
    burst_us=60_000.0,
    burst_most_us=60_000.0,
    burst_ratio=2.0,
    burst_bytes_us=50.0,
    bursts=3,
    burst_calls=3,
    settle_ratio=None,
    settle_jitter_us=0.0,
    skew_us=(15_000, 40_000),
    special_calls=8,
    busy_cores_per_rank=0.02,
    # A gang takes about 2 s to start on two cores, which is more than a practice board is worth.
    second_gang_share=0.0,
)
_WATCHED = Vigilance(
    band_us=5_000.0,
    band_bytes_us=20_000.0,
    # Six submissions on 2 and 4 H200 (21 November 2026, 144 series on shared hosts) were answered at most 0.45 ms later
    # than a reference whose ranks keep the same books: a rank whose processor is slowed down by its neighbour needs
    # half as long again for its 0.5 ms of bookkeeping. Whole windows were at most 1.26 ms longer, 0.68 ms but for one.
    device_band_us=750.0,
    device_band_bytes_us=2_500_000.0,
    reading_us=750.0,
    # The same submissions: a further call of a burst took at most 0.86 times what these allow, and 54 us more than the
    # claim, or 104 us where 46 us had become 112 us by the host's doing.
    burst_us=40.0,
    burst_most_us=120.0,
    burst_ratio=1.2,
    burst_bytes_us=1_000_000.0,
    bursts=3,
    burst_calls=16,
    settle_ratio=1.05,
    settle_jitter_us=100.0,
    skew_us=(50, 500),
    special_calls=4,
    # Ranks stay awake between calls, and communication libraries keep threads that poll. On 2 H200 (21 November 2026)
    # honest submissions used 0.7 to 1.0 per rank; one that burnt all processors of its own used 7.
    busy_cores_per_rank=2.5,
    second_gang_share=0.25,
)


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One board: a kind of machine at one world size.

    Attributes:
        sizes: the sizes that each mode judges.
        blocks: number of A B B A blocks per size in a timed mode.
        is_ranked_by_speed: False for practice boards, where correctness orders and times are indicative.
        sandbox: the level that ranked public work demands.
        multicast: whether NVLink multicast may be used.
        baseline_drift: largest allowed drift of the reference inside an evaluation; None where it is not judged.
        baseline_jitter_us: drift in microseconds that is always allowed: launching from the host moves by as much,
            which is more than `baseline_drift` of a reference that takes a few tens of microseconds.
        vigilance: how closely timed calls are watched.
    """

    name: str
    title: str
    device: str
    gpu: str | None
    world_size: int
    process_group: str
    backends: tuple[Backend, ...]
    sizes: dict[Mode, tuple[str, ...]]
    blocks: int
    is_ranked_by_speed: bool
    sandbox: SandboxLevel
    multicast: bool
    baseline_drift: float | None
    baseline_jitter_us: float
    vigilance: Vigilance
    peaks: Peaks | None

    def timing_rules(self, slots: SlotKind) -> TimingRules:
        """When times count here, where contents reach the sandbox through `slots`."""
        watch = self.vigilance
        is_on_device = slots is SlotKind.DEVICE_MEMORY
        return TimingRules(
            band_us=watch.device_band_us if is_on_device else watch.band_us,
            band_bytes_us=watch.device_band_bytes_us if is_on_device else watch.band_bytes_us,
            settle_ratio=watch.settle_ratio,
            settle_jitter_us=watch.settle_jitter_us,
            baseline_drift=self.baseline_drift,
            baseline_jitter_us=self.baseline_jitter_us,
            busy_cores=watch.busy_cores_per_rank * self.world_size,
            reading_us=watch.reading_us,
            by_block=True,
            # Where contents go through the host, a burst on GPUs holds their copying, which no claim has.
            burst_us=watch.burst_us if is_on_device or self.gpu is None else None,
            burst_most_us=watch.burst_most_us,
            burst_ratio=watch.burst_ratio,
            burst_bytes_us=watch.burst_bytes_us,
        )


class UnknownProfile(LookupError):
    """No profile has this name; the message lists those there are."""


_H100 = Peaks(
    bf16_flops=989.5e12,
    fp8_flops=1979e12,
    fp32_flops=67e12,
    fp64_flops=34e12,
    memory_bytes_s=3.35e12,
    wire_bytes_s=450e9,
    source="NVIDIA H100 datasheet, SXM5: 1,979 TFLOPS bf16 sparse (half of it dense), 3.35 TB/s, NVLink 900 GB/s",
)
_H200 = Peaks(
    bf16_flops=989.5e12,
    fp8_flops=1979e12,
    fp32_flops=67e12,
    fp64_flops=34e12,
    memory_bytes_s=4.8e12,
    wire_bytes_s=450e9,
    source="NVIDIA H200 datasheet, SXM: 1,979 TFLOPS bf16 sparse (half of it dense), 4.8 TB/s, NVLink 900 GB/s",
)
_B200 = Peaks(
    bf16_flops=2250e12,
    fp8_flops=4500e12,
    fp32_flops=75e12,
    fp64_flops=37e12,
    memory_bytes_s=7.7e12,
    wire_bytes_s=900e9,
    source="NVIDIA DGX B200 and HGX B200 datasheets, one eighth: 2.25 PFLOPS bf16 dense, 7.7 TB/s, NVLink 1.8 TB/s",
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
        sizes={Mode.CHECK: ("tiny",), Mode.BENCHMARK: ("tiny",), Mode.RANKED: ("tiny",)},
        blocks=12,
        is_ranked_by_speed=False,
        sandbox=SandboxLevel.REDUCED,
        multicast=False,
        baseline_drift=None,
        baseline_jitter_us=0.0,
        vigilance=_PRACTICE,
        peaks=None,
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
        sizes={Mode.CHECK: ("tiny", "base"), Mode.BENCHMARK: ("base", "large"), Mode.RANKED: ("base", "large")},
        blocks=12,
        is_ranked_by_speed=True,
        sandbox=SandboxLevel.FULL,
        multicast=multicast,
        baseline_drift=0.03,
        baseline_jitter_us=25.0,
        vigilance=_WATCHED,
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
