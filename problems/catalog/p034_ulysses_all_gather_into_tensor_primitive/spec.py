"""All-gather along dimension 0, described."""

from dataclasses import replace

from problems.spec.collectives import ALIKE_MATRICES
from problems.spec.ranges import Among, Extent, Whole
from problems.spec.regimes import (
    ALL_DTYPES,
    COPIED_SIZES,
    COPIED_VALUES,
    MANY,
    beyond_16_bits,
    long_extent,
    other_extents,
)
from problems.spec.schema import (
    EXACT,
    WORLD_GROUP,
    Argument,
    Cost,
    Dims,
    Hop,
    Output,
    Placement,
    Problem,
    Regime,
    Size,
    SizeName,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

_POSITIONS = 131_072
_HIDDEN = 8192


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """The own share is read, all W are written; W - 1 of them come from outside."""
    share = dims["M"] * dims["N"] * element_bytes
    received = (world_size - 1) * share
    return Cost(
        flops={},
        memory_bytes=(1 + world_size) * share,
        wire_bytes=received,
        reference_wire_bytes=received,
        note="What a rank has to receive bounds the wire; multicast spares the senders only.",
    )


def all_rows(dims: Dims, world_size: int) -> Dims:
    """The rows of all ranks, for a rank's own."""
    return {**dims, "W*M": world_size * dims["M"]}


def as_many_elements(dims: Dims, world_size: int) -> Dims:
    """The dimensions where a regime has twice as many rows as the size and half as many columns, or half and twice."""
    rows, columns = (dims["M"] * 2, dims["N"] // 2) if dims["is_long"] else (dims["M"] // 2, dims["N"] * 2)
    return all_rows({**dims, "M": rows, "N": columns}, world_size)


PROBLEM = Problem(
    number=34,
    slug="ulysses_all_gather_into_tensor_primitive",
    title="All-gather along dimension 0",
    summary="Joins the equally shaped tensors of all ranks along dimension 0, on every rank.",
    origin="VeOmni (sequence-parallel helpers)",
    parallelism=(Parallelism.SEQUENCE, Parallelism.CONTEXT),
    communication=(Communication.ALL_GATHER,),
    block=Block.PRIMITIVE,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.GENERIC,
    signature="solution(x: Tensor, group: ProcessGroup or None = None) -> Tensor",
    arguments=(
        Argument(name="x", shape=("M", "N"), values="standard normal, different on every rank"),
        WORLD_GROUP,
    ),
    outputs=(
        Output(name="out", shape=("W*M", "N"), placement=Placement.REPLICATED, tolerance=EXACT, layout="contiguous"),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: {"M": 50, "N": 72, "W*M": 50 * world_size}, system="a check on CPU ranks"
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: {"M": 1024, "N": 1024, "W*M": 1024 * world_size},
            system="2 MiB per rank in bfloat16",
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: {
                "M": _POSITIONS // world_size,
                "N": _HIDDEN,
                "W*M": _POSITIONS // world_size * world_size,
            },
            system="leaving the sequence-parallel region in Llama 3.1 70B (hidden size 8192) with its full context of "
            "131072 tokens",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="rank r",
            target="every other rank",
            payload="its M rows, to rows r M and following",
            pattern=Communication.ALL_GATHER,
        ),
    ),
    regimes=(
        other_extents(M=Extent(high=520), N=Extent(high=1030), derive=all_rows, narrow=""),
        Regime(
            name="equal_ends",
            words="the first and the last row of x are zero, or the same on all ranks",
            settings={"ends": Among(options=("zero", "same"))},
            apart=("one_rank_has_values",),
        ),
        Regime(
            name="as_many_elements",
            words="x has as many elements as in timed calls of this size, and half or twice as many rows",
            dims={"is_long": Whole(low=0, high=1)},
            derive=as_many_elements,
            apart=("other_extents", "alike_matrices", "long_rows"),
        ),
        replace(ALIKE_MATRICES, derive=all_rows, apart=("equal_ends",)),
        long_extent("long_rows", M=Whole(low=1, high=3), N=MANY, derive=all_rows),
        beyond_16_bits("many_rows", M=MANY, N=Whole(low=1, high=3), derive=all_rows),
        *COPIED_VALUES,
    ),
    invariants=(
        "`x` is a contiguous matrix, of the same shape on all ranks.",
        "Neither extent need be a multiple of anything.",
        COPIED_SIZES,
        "`group` is None, the world group.",
    ),
    dtypes=ALL_DTYPES,
)
