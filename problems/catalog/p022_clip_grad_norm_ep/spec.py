"""Gradient-norm clipping with expert-parallel parameters, described."""

from dataclasses import replace

from problems.families import clipping_spec
from problems.spec.ranges import Among, Real
from problems.spec.regimes import SUMMED_VALUES, ZERO_VALUES
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
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

MIXTRAL_EXPERTS_LAYER = 8 * 3 * 4096 * 14336
"""Parameters of the 8 experts of one layer of Mixtral 8x7B (hidden size 4096, MLP 14336, three matrices)."""


def _dims(world_size: int, *, rows: int, width: int) -> Dims:
    return {"M": rows, "N": width, "ep_size": max(1, world_size // 2)}


def _tiny(world_size: int) -> Dims:
    return {"M": 48, "N": 80, "ep_size": world_size // 2 if world_size > 3 else world_size}


def _large(world_size: int) -> Dims:
    return _dims(world_size, rows=MIXTRAL_EXPERTS_LAYER // (4096 * world_size), width=4096)


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Both gradients are read and, clipped, written once; a second read is needed unless they stay on the chip."""
    elements = 2 * dims["M"] * dims["N"]
    ranks = dims["ep_size"]
    share, *parts = (2 * (size - 1) / size for size in (world_size, ranks, world_size // ranks))
    return Cost(
        flops={"fp32": 3 * elements},
        memory_bytes=2 * elements * element_bytes,
        wire_bytes=share * 4,
        reference_wire_bytes=(share + sum(parts)) * 4,
        note="The groups of the expert part cover every rank once, so one scalar over all ranks is enough; the "
        "reference reduces three.",
    )


def _clipped(name: str, argument: str) -> Output:
    return Output(
        name=name,
        shape=("M", "N"),
        placement=Placement.SHARDED,
        sharding="this rank's shard of the gradient",
        argument=argument,
        element=0,
        tolerance=Tolerance(
            atol=0.002,
            rtol=0.012,
            rms=0.006,
            calibration="2026-11-21, CPU, torch 2.13, bfloat16, tiny, 2 and 4 ranks, 8 calls. Honest programs (factor "
            "in float32 or rounded to bfloat16) err by at most two roundings of 2^-8 each, 0.0041 rms; unclipped "
            "gradients by 6 rms.",
        ),
    )


def _gradient(name: str, scale: str) -> Argument:
    return Argument(
        name=name,
        kind=ArgumentKind.TENSORS,
        shape=("M", "N"),
        count=1,
        mutable=True,
        values=f"one tensor, normal with a secret scale {scale}, different on every rank",
    )


_ZERO = replace(
    ZERO_VALUES,
    words="all values are zero, or those of one of the two gradients",
    settings={"values": "zero", "zero": Among(options=("both", "non_ep", "ep"))},
)

PROBLEM = Problem(
    number=22,
    slug="clip_grad_norm_ep",
    title="Gradient-norm clipping with expert-parallel parameters",
    summary="The norm of ordinary and expert-parallel gradients, which are reduced over different groups, and clipping "
    "in place.",
    origin="VeOmni (gradient clipping with FSDP2 and expert parallelism)",
    parallelism=(Parallelism.FSDP, Parallelism.EXPERT),
    communication=(Communication.ALL_REDUCE,),
    block=Block.GRADIENT,
    stage=(Stage.TRAINING,),
    domain=Domain.MOE_LLM,
    signature="solution(non_ep_grad_tensors: list[Tensor], ep_grad_tensors: list[Tensor], max_norm: float, "
    "norm_type: float = 2.0, ep_size: int = 1, fsdp_group: ProcessGroup or None = None, "
    "ep_fsdp_group: ProcessGroup or None = None, ep_group: ProcessGroup or None = None) -> Tensor",
    arguments=(
        _gradient("non_ep_grad_tensors", "between 1/4 and 4"),
        _gradient("ep_grad_tensors", "between 1/4 and 4, times ep_size"),
        Argument(
            name="max_norm",
            kind=ArgumentKind.REAL,
            dtype="float",
            values="secret, between a tenth and a half of the norm, so that every timed call clips",
            replicated=True,
        ),
        Argument(name="norm_type", kind=ArgumentKind.REAL, dtype="float", values="2.0 in timed calls", replicated=True),
        Argument(
            name="ep_size",
            kind=ArgumentKind.INTEGER,
            dtype="int",
            values="in timed calls max(1, W // 2); at tiny W on fewer than four ranks",
            replicated=True,
        ),
        Argument(name="fsdp_group", kind=ArgumentKind.GROUP, dtype="process group", values="the world group"),
        Argument(
            name="ep_fsdp_group",
            kind=ArgumentKind.GROUP,
            dtype="process group",
            values="the ranks with the same place in their expert group; the world where there are no expert groups",
        ),
        Argument(
            name="ep_group",
            kind=ArgumentKind.GROUP,
            dtype="process group",
            values="ep_size neighbouring ranks, which hold different experts; None where ep_size is 1 or does not "
            "divide W",
        ),
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
                calibration="As in the problem of ordinary gradients: a float32 norm of a million elements errs by up "
                "to 3.8e-5 on the CPU. 2026-11-21, torch 2.13, gloo, tiny, 2 and 4 ranks, 8 calls. Honest programs err "
                "by less than 1e-6. The cheapest cheats (experts counted twice, one group left out) err by more than "
                "0.1.",
            ),
        ),
        _clipped("clipped_non_ep", "non_ep_grad_tensors"),
        _clipped("clipped_ep", "ep_grad_tensors"),
    ),
    sizes={
        SizeName.TINY: Size(dims=_tiny, system="a check on CPU ranks"),
        SizeName.BASE: Size(
            dims=lambda world_size: _dims(world_size, rows=1024, width=1024), system="two shards of 2 MiB in bfloat16"
        ),
        SizeName.LARGE: Size(
            dims=_large,
            system="the expert gradients of one layer of Mixtral 8x7B (8 experts, hidden size 4096, MLP 14336) and as "
            "many ordinary gradients, sharded over the ranks",
        ),
    },
    cost=cost,
    groups="fsdp_group: the world; ep_group: blocks of ep_size neighbouring ranks; ep_fsdp_group: ranks at equal "
    "places of these blocks",
    hops=(
        Hop(
            source="every rank",
            target="every rank of the group",
            payload="one float32 per part: its sum of squares",
            pattern=Communication.ALL_REDUCE,
        ),
    ),
    mutants_not_applicable=dict.fromkeys(
        ("squeezed_int8", "squeezed_float8"),
        "the payload is one number, which an 8-bit format with a scale of its own carries exactly",
    ),
    notes=(
        "Every timed call exceeds the limit, so that the scaling is seen in every one of them.",
        "At base and large on two ranks ep_size is 1 and there is no expert group.",
    ),
    regimes=(
        Regime(
            name="below_the_limit",
            words="the norm is below the limit, which may be beyond the range of float32, so that nothing is scaled "
            "but for the division by ep_size",
            settings={"more_room": Real(low=20.0, high=1e300, often=(1e300,), by_size=True)},
            apart=("near_the_limit",),
        ),
        *clipping_spec.REGIMES,
        Regime(
            name="no_expert_groups",
            words="ep_size is 1, ep_group is None and ep_fsdp_group is the world",
            dims={"ep_size": 1},
        ),
        *(_ZERO if one is ZERO_VALUES else one for one in SUMMED_VALUES),
        clipping_spec.OTHER_EXTENTS,
    ),
    invariants=(
        "Tensors are contiguous. The gradients of all ranks have one shape, M x N.",
        "`M` and `N` may be odd, and a gradient has at least 272 elements.",
        "Values are finite. `max_norm` is not negative, and may be infinite.",
        "The norm is 0 or at least 1e-16. `max_norm` is 0, or at least 5e-7 of the norm and at least 1e-22.",
        "For every gradient, divided or not, the sum of |g|^p over its elements is zero or between 1e-34 and 1e34.",
        "So a sum of powers in float32 neither overflows nor vanishes; the power of a single element may.",
        "Each list holds one gradient, which is not None.",
        "`norm_type` lies between 1 and 8.",
        "`ep_size` is the one of timed calls or 1, and the groups follow from it.",
    ),
)
