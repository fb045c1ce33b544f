"""Variable all-to-all of token rows, described."""

from dataclasses import replace

from problems.spec.ranges import Among, Extent
from problems.spec.regimes import CANCELLING_VALUES, COPIED_VALUES, MANY, beyond_16_bits, long_extent, other_extents
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
    Reading,
    Regime,
    Size,
    SizeName,
    fixed,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Every row is read and written once; on average 1/W of a rank's rows stay at home.

    The wire term is the mean over the routings that are drawn; the busiest rank of a single call sends more.
    """
    rows = dims["M"] * dims["N"] * element_bytes
    sent = (world_size - 1) / world_size * rows
    return Cost(
        flops={},
        memory_bytes=2 * rows,
        wire_bytes=sent,
        reference_wire_bytes=sent,
        note="Mean over routings: how many rows stay on their rank differs from call to call.",
    )


_SPLITS = "secret, uneven, some of them zero; new on every call and different on every rank; they add up to M"

PROBLEM = Problem(
    number=27,
    slug="moe_all2all_primitive",
    title="Variable all-to-all of token rows",
    summary="Exchanges rows of a token matrix between ranks by per-destination and per-source row counts.",
    origin="VeOmni (expert-parallel MoE all-to-all)",
    parallelism=(Parallelism.EXPERT,),
    communication=(Communication.ALL_TO_ALL_V,),
    block=Block.MOE,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.MOE_LLM,
    signature="solution(local_tensor: Tensor, input_split_sizes: list[int] or Tensor or None = None, "
    "output_split_sizes: list[int] or Tensor or None = None, group: ProcessGroup or None = None) -> Tensor",
    arguments=(
        Argument(name="local_tensor", shape=("M", "N"), values="standard normal, different on every rank"),
        Argument(name="input_split_sizes", kind=ArgumentKind.INTEGERS, shape=("W",), dtype="int", values=_SPLITS),
        Argument(
            name="output_split_sizes",
            kind=ArgumentKind.INTEGERS,
            shape=("W",),
            dtype="int",
            values="entry s is what rank s sends here",
        ),
        WORLD_GROUP,
    ),
    outputs=(Output(name="out", shape=("M", "N"), placement=Placement.PER_RANK, tolerance=EXACT),),
    sizes={
        SizeName.TINY: Size(dims=fixed(M=100, N=48), system="a check on CPU ranks"),
        SizeName.BASE: Size(dims=fixed(M=1024, N=1024), system="1024 token rows of 1024 elements per rank"),
        SizeName.LARGE: Size(
            dims=fixed(M=32_768, N=7168),
            system="expert-parallel dispatch of DeepSeek-V3 (hidden size 7168, 8 routed experts per token) with 4096 "
            "tokens per rank: 32768 rows leave every rank",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="rank r",
            target="rank d",
            payload="input_split_sizes[d] consecutive rows",
            pattern=Communication.ALL_TO_ALL_V,
        ),
    ),
    mutants_not_applicable={
        "shards_wrong_order": "pieces differ in length; their wrong order is the problem's own mutant sources_reversed"
    },
    counted_wire=Reading(
        least=0.7,
        most=1.6,
        reason="The model counts the mean over splits, which are secret and uneven; in one call the busiest "
        "rank sends more.",
    ),
    lengths_vary=True,
    regimes=(
        Regime(
            name="all_to_one",
            words="every rank sends all its rows to one rank, and the others receive nothing",
            settings={"rows": "to_one"},
            at_large=False,
        ),
        Regime(
            name="one_sends_nothing",
            words="one rank has no row to send, and may receive none either",
            settings={"rows": Among(options=("one_silent", "one_idle"))},
            at_large=False,
        ),
        Regime(
            name="few_rows",
            words="pieces have at most four rows and many have none, so that ranks have unequal numbers of rows",
            settings={"rows": "few"},
            at_large=False,
        ),
        Regime(
            name="nothing_travels",
            words="all rows stay on their ranks, or no rank has any",
            settings={"rows": Among(options=("stay", "none"))},
            at_large=False,
        ),
        replace(
            other_extents(narrow="", M=Extent(low=1, high=599), N=Extent(low=1, high=799)),
            words="tensors have other extents than usual, and every other row may begin with zeros",
            settings={"beginnings": Among(options=("usual", "zero"))},
        ),
        Regime(
            name="zero_pieces",
            words="all rows from some ranks to some others are zeros of either sign",
            settings={"pieces": "zero"},
        ),
        long_extent("long_rows", M=Extent(low=1, high=9), N=Extent(low=800, high=16_384)),
        replace(
            beyond_16_bits("many_rows", M=MANY, N=2),
            words="every rank sends more rows than 16 bits can number, all to one rank",
            settings={"rows": "to_one"},
        ),
        *COPIED_VALUES,
        CANCELLING_VALUES,
    ),
    invariants=(
        "`local_tensor` is a contiguous matrix. Ranks may have unequal numbers of rows, or none.",
        "`N` is the same on all ranks, and may be odd.",
        "Values may be NaN, infinite or subnormal. Finite ones are at most 1e31 in size.",
        "Copies are compared bit by bit, but one NaN is as good as another.",
        "`group` is None, the world group.",
        "Both sizes are lists of ints, and agree: the source of the problem takes no tensors and no None.",
    ),
)
