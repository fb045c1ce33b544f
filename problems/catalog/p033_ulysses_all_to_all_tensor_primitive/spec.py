"""All-to-all that cuts one dimension and joins another, described."""

from problems.spec.ranges import Among, Extent, Whole
from problems.spec.regimes import CANCELLING_VALUES, COPIED_SIZES, COPIED_VALUES, beyond_16_bits
from problems.spec.schema import (
    EXACT,
    WORLD_GROUP,
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
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage
from problems.spec.world_sizes import divisors_of


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """The matrix is read once and as many elements are written; one piece of W stays at home."""
    matrix = dims["M"] * dims["N"] * element_bytes
    sent = (world_size - 1) / world_size * matrix
    return Cost(flops={}, memory_bytes=2 * matrix, wire_bytes=sent, reference_wire_bytes=sent, note="Pure exchange.")


def _by_rank(dims: Dims, world_size: int) -> Dims:
    """Extents that are multiples of the number of ranks."""
    return {**dims, "M": world_size * dims["M"], "N": world_size * dims["N"]}


def _rows_to_columns(world_size: int) -> Dims:
    """The card's direction: cut dimension 0, join along dimension 1."""
    joined = {"out_rows": 1024 // world_size, "out_columns": 1024 * world_size}
    return {"M": 1024, "N": 1024, "scatter_dim": 0, "gather_dim": 1} | joined


def _columns_to_rows(world_size: int) -> Dims:
    """Cut the features, join the positions."""
    positions, features = 131_072, 8192
    taken = {"M": positions // world_size, "N": features, "scatter_dim": 1, "gather_dim": 0}
    return taken | {"out_rows": positions, "out_columns": features // world_size}


PROBLEM = Problem(
    number=33,
    slug="ulysses_all_to_all_tensor_primitive",
    title="All-to-all that cuts one dimension and joins another",
    summary="Cuts a matrix into W pieces along one dimension, sends piece d to rank d and joins what arrives along "
    "another dimension.",
    origin="VeOmni (sequence-parallel helpers)",
    parallelism=(Parallelism.SEQUENCE, Parallelism.CONTEXT),
    communication=(Communication.ALL_TO_ALL,),
    block=Block.PRIMITIVE,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.GENERIC,
    signature="solution(x: Tensor, scatter_dim: int, gather_dim: int, group: ProcessGroup or None = None) -> Tensor",
    arguments=(
        Argument(name="x", shape=("M", "N"), values="standard normal, different on every rank"),
        Argument(
            name="scatter_dim",
            kind=ArgumentKind.INTEGER,
            dtype="int",
            values="in timed calls 0 at base, 1 at large, either at tiny",
            replicated=True,
        ),
        Argument(
            name="gather_dim",
            kind=ArgumentKind.INTEGER,
            dtype="int",
            values="1 - scatter_dim in timed calls",
            replicated=True,
        ),
        WORLD_GROUP,
    ),
    outputs=(Output(name="out", shape=("out_rows", "out_columns"), placement=Placement.PER_RANK, tolerance=EXACT),),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: {"M": 6 * world_size, "N": 10 * world_size},
            system="a check on CPU ranks, in a direction that changes from call to call",
        ),
        SizeName.BASE: Size(dims=_rows_to_columns, system="one 2 MiB matrix per rank in bfloat16, rows to columns"),
        SizeName.LARGE: Size(
            dims=_columns_to_rows,
            system="activations of Llama 3.1 70B (hidden size 8192) at its full context of 131072 tokens: from a split "
            "over positions to a split over features",
        ),
    },
    cost=cost,
    refuses_world_size=divisors_of(1024, needs="at least 2 ranks, a power of two up to 1024"),
    world_size_rule="a power of two",
    hops=(
        Hop(
            source="rank r",
            target="rank d",
            payload="piece d of its matrix, cut along scatter_dim",
            pattern=Communication.ALL_TO_ALL,
        ),
    ),
    lengths_vary=True,
    regimes=(
        Regime(
            name="one_dimension",
            words="scatter_dim and gather_dim are the same dimension, that which timed calls of this size join",
            settings={"one_dimension": True},
        ),
        Regime(
            name="other_extents",
            words="the extents of x are other multiples of the number of ranks, which may be odd",
            settings={"multiple_of_rows": Extent(low=1, high=81), "multiple_of_columns": Extent(low=1, high=131)},
            at_large=False,
        ),
        Regime(
            name="as_many_elements",
            words="x has as many elements as in timed calls of this size, and half or twice as many rows",
            settings={"rows": Among(options=("half", "twice"))},
            apart=("other_extents", "long_rows"),
        ),
        Regime(
            name="long_rows",
            words="the rows of x are long, and a rank has one or two for each rank",
            settings={"multiple_of_rows": Whole(low=1, high=2), "multiple_of_columns": Extent(low=16_500, high=35_000)},
            at_large=False,
        ),
        beyond_16_bits("many_rows", derive=_by_rank, M=Extent(low=32_800, high=35_000), N=1),
        *COPIED_VALUES,
        CANCELLING_VALUES,
    ),
    invariants=(
        "`x` is a contiguous matrix, of the same shape on all ranks.",
        "`scatter_dim` and `gather_dim` are 0 or 1, never negative.",
        "Both extents of `x` are multiples of the number of ranks, odd ones too.",
        COPIED_SIZES,
        "`group` is None, the world group.",
    ),
)
