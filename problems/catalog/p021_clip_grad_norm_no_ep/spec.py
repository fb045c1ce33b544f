"""Gradient-norm clipping over sharded gradients, described."""

from problems.families import clipping_spec
from problems.spec.ranges import Among, Extent, Real
from problems.spec.regimes import SUMMED_VALUES
from problems.spec.schema import (
    Argument,
    ArgumentKind,
    Cost,
    Dims,
    Hop,
    Output,
    Placement,
    Problem,
    Regime,
    Size,
    SizeName,
    Tolerance,
    fixed,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

LLAMA_8B = 8_030_261_248
"""Parameters of Llama 3.1 8B."""


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Every gradient is read and, clipped, written once; a second read is needed unless it stays on the chip."""
    elements = 3 * dims["M"] * dims["N"]
    wire = 2 * (world_size - 1) / world_size * 4
    return Cost(
        flops={"fp32": 3 * elements},
        memory_bytes=2 * elements * element_bytes,
        wire_bytes=wire,
        reference_wire_bytes=wire,
        note="One float32 scalar is all-reduced: the wire matters by its latency, between two passes over the "
        "gradients.",
    )


def _clipped(number: int) -> Output:
    return Output(
        name=f"clipped_{number}",
        shape=("M", "N"),
        placement=Placement.SHARDED,
        sharding="this rank's shard of the gradient",
        argument="grad_tensors",
        element=number,
        tolerance=Tolerance(
            atol=0.002,
            rtol=0.012,
            rms=0.006,
            calibration="2026-11-21, CPU, torch 2.13, bfloat16, tiny, 2 and 4 ranks, 8 calls. Honest programs (factor "
            "in float32 or rounded to bfloat16) err by at most two roundings of 2^-8 each, 0.0041 rms; unclipped "
            "gradients by 2.9 rms.",
        ),
    )


PROBLEM = Problem(
    number=21,
    slug="clip_grad_norm_no_ep",
    title="Gradient-norm clipping over sharded gradients",
    summary="The norm of gradients that are sharded over all ranks; where it exceeds a limit, they are scaled in "
    "place.",
    origin="VeOmni (gradient clipping with FSDP2)",
    parallelism=(Parallelism.FSDP,),
    communication=(Communication.ALL_REDUCE,),
    block=Block.GRADIENT,
    stage=(Stage.TRAINING,),
    domain=Domain.LLM,
    signature="solution(grad_tensors: list[Tensor], max_norm: float, norm_type: float = 2.0, "
    "fsdp_group: ProcessGroup or None = None) -> Tensor",
    arguments=(
        Argument(
            name="grad_tensors",
            kind=ArgumentKind.TENSORS,
            shape=("M", "N"),
            count=3,
            mutable=True,
            values="three tensors, normal with a secret scale between 1/8 and 8 each, different on every rank",
        ),
        Argument(
            name="max_norm",
            kind=ArgumentKind.REAL,
            dtype="float",
            values="secret, between a tenth and a half of the norm, so that every timed call clips",
            replicated=True,
        ),
        Argument(name="norm_type", kind=ArgumentKind.REAL, dtype="float", values="2.0 in timed calls", replicated=True),
        Argument(name="fsdp_group", kind=ArgumentKind.GROUP, dtype="process group", values="the world group"),
    ),
    outputs=(
        Output(
            name="total_norm",
            shape=(),
            dtype="float32",
            placement=Placement.REPLICATED,
            tolerance=Tolerance(
                atol=1e-4,
                rtol=1e-4,
                calibration="2026-11-21, CPU, torch 2.13, gloo. At base, 4 ranks, 2 calls. Honest programs err by at "
                "most 3.8e-5 (the library's float32 norm of a million elements; 3e-8 with a float64 sum). At tiny, 2 "
                "and 4 ranks, 8 calls: the cheapest cheats (norms added, no communication) err by more than 0.1.",
            ),
        ),
        *map(_clipped, range(3)),
    ),
    sizes={
        SizeName.TINY: Size(dims=fixed(M=48, N=80), system="a check on CPU ranks"),
        SizeName.BASE: Size(dims=fixed(M=1024, N=1024), system="three shards of 2 MiB in bfloat16"),
        SizeName.LARGE: Size(
            dims=lambda world_size: {"M": LLAMA_8B // (3 * 4096 * max(8, world_size)), "N": 4096},
            system="the gradients of Llama 3.1 8B (8.03 billion parameters) as FSDP shards them over eight ranks; "
            "fewer ranks hold a part of them",
        ),
    },
    cost=cost,
    groups="fsdp_group: the world group, passed explicitly",
    hops=(
        Hop(
            source="every rank",
            target="every rank",
            payload="one float32: its sum of squares",
            pattern=Communication.ALL_REDUCE,
        ),
    ),
    mutants_not_applicable=dict.fromkeys(
        ("squeezed_int8", "squeezed_float8"),
        "the payload is one number, which an 8-bit format with a scale of its own carries exactly",
    ),
    notes=("Every timed call exceeds the limit, so that the scaling is seen in every one of them.",),
    regimes=(
        Regime(
            name="below_the_limit",
            words="the norm is below the limit, which may be beyond the range of float32, so that nothing is scaled",
            settings={"more_room": Real(low=20.0, high=1e300, often=(1e300,), by_size=True)},
            apart=("near_the_limit",),
        ),
        Regime(
            name="zero_rows",
            words="the first row of each gradient is zero, or all of one gradient of each rank, and extents are others",
            settings={"zero": Among(options=("first rows", "one gradient"))},
            dims={"M": Extent(low=16, high=320), "N": Extent(low=17, high=300)},
        ),
        *clipping_spec.REGIMES,
        *SUMMED_VALUES,
        clipping_spec.OTHER_EXTENTS,
    ),
    invariants=(
        "Tensors are contiguous. The gradients of all ranks have one shape, M x N.",
        "`M` and `N` may be odd, and a gradient has at least 272 elements.",
        "Values are finite. `max_norm` is not negative, and may be infinite.",
        "For every gradient the sum of |g|^p over its elements is zero or between 1e-34 and 1e34.",
        "The norm is 0 or at least 1e-16. `max_norm` is 0, or at least 5e-7 of the norm and at least 1e-22.",
        "So a sum of powers in float32 neither overflows nor vanishes; the power of a single element may.",
        "`fsdp_group` is the world group.",
        "There are three gradients, none of them None.",
        "`norm_type` lies between 1 and 8.",
    ),
)
