"""Row-sharded embedding lookup, described."""

from dataclasses import replace

from problems.spec.ranges import Among, Extent
from problems.spec.regimes import COPIED_VALUES, MANY, beyond_16_bits, long_extent, other_extents
from problems.spec.schema import (
    EXACT,
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
    fixed,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

LARGEST_TABLE = 40_000_000
"""Rows of the largest tables of the MLPerf DLRM-DCNv2 benchmark, whose embedding dimension is 128."""

_DISTINCT_SHARE = 0.5
"""Below the mean share of remote requests that name a row for the first time. That is 0.56 on 2 ranks, 0.65 on 4, 0.73
on 8 (simulated with 20000 rows per rank, 20 draws)."""


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Requested rows are read and written; on average (W-1)/W of them live elsewhere.

    A row that a rank asks for more than once has to arrive once; a program may know that before it sends.
    """
    requests = dims["M"]
    rows = requests * dims["N"] * element_bytes
    remote = (world_size - 1) / world_size * rows
    indices = (world_size - 1) / world_size * 8 * requests
    return Cost(
        flops={},
        memory_bytes=8 * requests + (1 + _DISTINCT_SHARE) * rows,
        wire_bytes=_DISTINCT_SHARE * remote,
        reference_wire_bytes=remote + indices,
        note="A mean over calls: how many rows live elsewhere varies. Rows asked for twice need to cross once; where "
        "a rank reads its peers' tables directly no index travels.",
    )


PROBLEM = Problem(
    number=10,
    slug="embedding_lookup",
    title="Row-sharded embedding lookup",
    summary="A table is split by rows over the ranks; every rank looks up its own list of rows, grouped by owner.",
    origin=None,
    parallelism=(Parallelism.TABLE,),
    communication=(Communication.ALL_TO_ALL, Communication.ALL_TO_ALL_V),
    block=Block.EMBEDDING,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.RECOMMENDER,
    signature="solution(indices: Tensor[int64], local_shard: Tensor) -> Tensor",
    arguments=(
        Argument(
            name="indices",
            shape=("M",),
            dtype="int64",
            values="row numbers in [0, W*M) with repetition: owners are unevenly popular, differently for every rank, "
            "and within an owner few rows are asked for often; new on every rank and call",
        ),
        Argument(
            name="local_shard",
            shape=("M", "N"),
            values="standard normal: rows r*M to (r+1)*M - 1 of the table, on rank r; new on every call",
        ),
    ),
    outputs=(Output(name="out", shape=("M", "N"), placement=Placement.PER_RANK, tolerance=EXACT),),
    sizes={
        SizeName.TINY: Size(dims=fixed(M=120, N=48), system="a check on CPU ranks"),
        SizeName.BASE: Size(dims=fixed(M=1024, N=1024), system="1024 lookups of 1024 elements per rank"),
        SizeName.LARGE: Size(
            dims=fixed(M=LARGEST_TABLE // 8, N=128),
            system="DLRM-DCNv2 as MLPerf trains it: one of its largest tables (40 million rows of 128), split over "
            "eight ranks, with as many lookups per rank as it holds rows; fewer ranks hold a part of the table",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="rank r",
            target="the owner of each row",
            payload="row numbers, grouped by owner",
            pattern=Communication.ALL_TO_ALL_V,
        ),
        Hop(
            source="the owner",
            target="rank r",
            payload="the rows asked for",
            pattern=Communication.ALL_TO_ALL_V,
        ),
    ),
    mutants_not_applicable=dict.fromkeys(
        ("last_rank_skipped", "shards_wrong_order"),
        "changed counts would make ranks wait for rows that nobody sends; the mutants last_owner_left_out and "
        "owners_reversed stand for it",
    ),
    counted_wire=Reading(
        least=0.85,
        most=2.2,
        reason="The model counts the mean over ranks and calls; in one call a rank may be asked for many more "
        "rows than others, because popular rows lie together.",
    ),
    regimes=(
        Regime(
            name="one_owner",
            words="all ranks ask one rank alone",
            settings={"requests": "one_owner"},
            at_large=False,
        ),
        Regime(
            name="one_row",
            words="all requests of all ranks name one row",
            settings={"requests": "one_row"},
            at_large=False,
        ),
        Regime(
            name="own_rows",
            words="every rank asks for rows of its own alone, so that nothing travels",
            settings={"requests": "own_rows"},
        ),
        Regime(
            name="shard_edges",
            words="all requests name the first or the last row of a shard, rows begin and end with zero, and M is a "
            "number whose reciprocal in float32 is too small",
            settings={"requests": "edges"},
            dims={"M": Among(options=("41", "47", "55", "83", "109", "123"))},
        ),
        Regime(
            name="nearly_sorted",
            words="lists ascend, but for two row numbers that changed places, and begin with the first row of a shard",
            settings={"lists": "nearly_sorted"},
            apart=("one_row", "shard_edges"),
        ),
        other_extents(M=Extent(high=999), N=Extent(high=2999)),
        long_extent("long_rows", M=Extent(high=20), N=Extent(low=3000, high=20_000)),
        replace(
            beyond_16_bits("many_rows", M=MANY, N=1),
            words="there are more rows than 16 bits can number, and all ranks but one ask that one alone",
            settings={"requests": "crowded"},
        ),
        *COPIED_VALUES,
    ),
    invariants=(
        "Tensors are contiguous.",
        "All ranks have equally many rows, M, and every rank asks for as many as it has.",
        "Row numbers are at least 0 and below W M.",
        "M and N may be odd or prime, and are the same on all ranks.",
        "The table has at most 40 million rows, and no tensor has 2^30 elements or more.",
        "Rows are in bfloat16, their finite values at most 1e31 in size.",
        "A NaN has to stay a NaN, its bits are free, and zeros of both signs count as equal.",
        "The world group takes part.",
    ),
)
