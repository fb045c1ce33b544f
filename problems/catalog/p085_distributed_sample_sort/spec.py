"""Distributed sample sort with balanced output, described."""

from math import log2

from problems.spec.ranges import Among, Extent, Whole
from problems.spec.regimes import SPREAD_VALUES
from problems.spec.schema import (
    ALL_OTHERS,
    EXACT,
    WORLD_GROUP,
    Argument,
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
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """About n log2(n W) comparisons; values are read and written once, and all but 1/W change their rank.

    Where a dtype has so few values that counting them is shorter than sending them, counts are the least on the wire.
    """
    mean = dims["total"] / world_size
    moved = (world_size - 1) / world_size * mean * element_bytes
    return Cost(
        flops={"fp32": mean * log2(dims["total"])},
        memory_bytes=2 * mean * element_bytes,
        wire_bytes=min(moved, (world_size - 1) / world_size * 4 * 2.0 ** (8 * element_bytes)),
        reference_wire_bytes=1.1 * moved + (world_size - 1) * (64 * world_size * element_bytes + 32),
        note="Mean over ranks. Least: the values that change their rank or, for 16-bit dtypes, 65536 counts of 4 "
        "bytes, which say as much. The reference sends the values, samples and lengths, and some values a "
        "second time to balance the shares (about a tenth at base, counted).",
    )


def _base(world_size: int) -> Dims:
    count = max(4 * world_size, min(1024 // world_size, 4096))
    return {"n": count, "total": count * world_size}


PROBLEM = Problem(
    number=85,
    slug="distributed_sample_sort",
    title="Distributed sample sort with balanced output",
    summary="Global ascending sort of a vector in uneven shards, returned in even ones.",
    origin="cuPyNumeric / Legate style distributed sample sort (by resemblance)",
    parallelism=(Parallelism.DATA,),
    communication=(Communication.ALL_GATHER, Communication.ALL_TO_ALL, Communication.ALL_TO_ALL_V),
    block=Block.SORT,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.GENERIC,
    signature="solution(local_shard: Tensor, group: Optional[ProcessGroup] = None) -> Tensor",
    arguments=(
        Argument(
            name="local_shard",
            shape=("n",),
            values="long-tailed around 0, a quarter of them small whole numbers, from one distribution on all ranks; "
            "lengths equal at base, else uneven, secret and one of them 0",
        ),
        WORLD_GROUP,
    ),
    outputs=(
        Output(
            name="sorted_shard",
            shape=("n",),
            placement=Placement.SHARDED,
            sharding="of N values in all rank r holds N // W, and one more if r < N mod W, in ascending order of ranks",
            tolerance=EXACT,
        ),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: {"total": 1001 * world_size + 1}, system="a check on CPU ranks: uneven shares"
        ),
        SizeName.BASE: Size(dims=_base, system="1024 values in all: latency alone"),
        SizeName.LARGE: Size(
            dims=lambda world_size: {"total": (1 << 27) * world_size + 1},
            system="134 million keys per rank, 256 MiB in bfloat16: the scores of a corpus of a billion on 8 ranks",
        ),
    },
    cost=cost,
    hops=(
        Hop(source="every rank", target="every rank", payload="samples", pattern=Communication.ALL_GATHER),
        Hop(
            source="rank r",
            target="rank d",
            payload="the bucket that rank d merges",
            pattern=Communication.ALL_TO_ALL_V,
        ),
        Hop(
            source="rank r",
            target="its neighbours",
            payload="what balances the shares",
            pattern=Communication.ALL_TO_ALL_V,
        ),
    ),
    mutants_not_applicable={
        "last_rank_skipped": "lengths are exchanged first, and zeros for them end in shards that do not fit; the "
        "problem's own mutant longest_share_forgotten stands for it",
        "no_communication": "without lengths of others nothing fits; sorted_locally stands for it",
        "shards_wrong_order": "lengths that are exchanged rotate with the shares; off_by_one stands for it",
    },
    counted_wire=Reading(
        least=0.8,
        most=1.9,
        reason="One rank has no values and another up to twice the mean or more, so the busiest sends and "
        "receives more than the mean that the model counts.",
    ),
    lengths_vary=True,
    regimes=(
        Regime(
            name="nobody_is_empty",
            words="all ranks have values, of unequal numbers",
            settings={"shares": "nobody_is_empty"},
        ),
        Regime(
            name="one_rank_has_all",
            words="one rank has all values, or each other rank a single one",
            settings={"shares": Among(options=("one_has_most", "one_has_all"))},
            at_large=False,
        ),
        Regime(
            name="few_values",
            words="a rank returns few values, and holds any number of them, or none",
            settings={"values_per_rank": Whole(low=1, high=4)},
        ),
        Regime(
            name="other_lengths",
            words="shards are shorter or longer than usual, with so many values on average",
            settings={"values_on_average": Extent(low=5, high=9001)},
            apart=("few_values",),
        ),
        SPREAD_VALUES,
        Regime(
            name="ranges_apart",
            words="every rank has as many values, in a range of their own that meets no other rank's (apart), or in "
            "order, the first and the last rising from rank to rank, the others not (ordered)",
            settings={"ranges": Among(options=("ordered", "apart")), "shares": "equal"},
        ),
        Regime(name="equal_values", words="all values are equal", settings={"equal": True}),
        Regime(
            name="many_equal_values",
            words="three quarters of the values are equal, more of them than 16 bits can count",
            settings={"equal": "most", "values_on_average": Whole(low=66_000, high=90_000)},
            at_large=False,
            apart=(ALL_OTHERS,),  # Such a call takes long on processors.
        ),
        Regime(
            name="infinite_values",
            words="a quarter of the values is infinite and another one subnormal or, seldom, the largest finite "
            "number, of either sign",
            settings={"infinite": True},
            apart=("ranges_apart",),
        ),
    ),
    invariants=(
        "`local_shard` is contiguous.",
        "`group` is None, the world group.",
        "No value is NaN.",
        "Shards are vectors, of length 0 too, and there is at least one value per rank on average.",
        "Zeros of either sign count as equal.",
    ),
)
