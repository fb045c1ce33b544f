"""Rows of a sharded table, fetched and projected, described."""

from dataclasses import replace

from problems.families.one_rank_spec import also_larger
from problems.spec.ranges import Among, Extent
from problems.spec.regimes import long_extent, of_product, other_extents
from problems.spec.schema import (
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
    Scope,
    Size,
    SizeName,
    Tolerance,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

_PAPERS = 111_059_956
"""Nodes of ogbn-papers100M, which have 128 features."""

_NODES_PER_BATCH = 1024 * (1 + 15 + 15 * 10 + 15 * 10 * 5)
"""Most nodes that 1024 seeds reach with fanouts 15, 10 and 5, the usual ones for that graph."""

_DISTINCT = 0.85
"""Share of a rank's queries that name different nodes, less than in any call measured at base and large."""


def _dims(*, nodes: int, queries: int, width: int, period: int, world_size: int) -> Dims:
    """Sizes for so many nodes, in shards of equal size."""
    return {"Nn": nodes, "sh": -(-nodes // world_size), "D": width, "Q": queries, "period": period}


def tiny(world_size: int) -> Dims:
    """The last rank's shard ends with a row that is no node."""
    return _dims(nodes=60 * world_size - 1, queries=90, width=32, period=16, world_size=world_size)


def base(world_size: int) -> Dims:
    """The card's size: 111 million nodes, rounded up to a multiple of the ranks."""
    nodes = -(-111_000_000 // world_size) * world_size
    return _dims(nodes=nodes, queries=20_000, width=256, period=1 << 16, world_size=world_size)


def large(world_size: int) -> Dims:
    """A batch on ogbn-papers100M."""
    nodes = -(-_PAPERS // world_size) * world_size
    return _dims(nodes=nodes, queries=_NODES_PER_BATCH, width=128, period=1 << 20, world_size=world_size)


def _of_short_shards(dims: Dims, world_size: int) -> Dims:
    """Another length of the shards, of which the last ends with a row that is no node."""
    return {**dims, "Nn": dims["sh"] * world_size - 1, "period": 16}


def _also_in_part(regime: Regime) -> Regime:
    """`regime`; where it has the table or a matrix zero, a part of it may be zero instead."""
    words = {
        "zero_values": "all values of local_embedding_shard are zero, or the first row and column of every shard are",
        "zero_factor": "all values of proj_matrix are zero on one rank, or two beside its diagonal on all ranks, or a "
        "row there, of which the factors in the table are 2^20 times as large as others",
    }.get(regime.name)
    if words is None:
        return regime
    name, kind = next(iter(regime.settings.items()))
    options = ("all", "part") if name == "values" else ("all", "part", "row")
    return replace(regime, words=words, settings={name: kind, f"{name}_in": Among(options=options)})


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """The mean over ranks and calls: owners are dealt in a secret order, so 1/W of the queries stay on their rank.

    Of the table only the rows that are asked for count.
    """
    rows = dims["Q"] * element_bytes * dims["D"]
    remote = (world_size - 1) / world_size
    return Cost(
        flops={"matmul": 2 * _DISTINCT * dims["Q"] * dims["D"] ** 2},
        memory_bytes=(1 + _DISTINCT) * rows + element_bytes * dims["D"] ** 2 + 8 * dims["Q"],
        wire_bytes=remote * _DISTINCT * rows,
        reference_wire_bytes=remote * (rows + 8 * dims["Q"]) + 8 * (world_size - 1),
        note=f"At least {_DISTINCT:.0%} of the queries name different nodes, fetched and multiplied once. A mean over "
        "calls: the busiest rank of a call moves more.",
    )


PROBLEM = Problem(
    number=68,
    slug="gnn_sparse_feature_fetch_projection",
    title="Remote embedding fetch from a sharded table + linear projection",
    summary="Every rank looks up rows of a table that is split over ranks, and multiplies them by its matrix.",
    origin="GraphStorm / DGL style distributed node embeddings with an input projection (table of ogbn-papers100M's "
    "size)",
    parallelism=(Parallelism.GRAPH, Parallelism.TABLE),
    communication=(Communication.ALL_TO_ALL, Communication.ALL_TO_ALL_V),
    block=Block.EMBEDDING,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.GRAPH,
    signature="solution(local_embedding_shard: Tensor, input_node_ids: Tensor, proj_matrix: Tensor, "
    "num_total_nodes: int, group: Optional[ProcessGroup] = None) -> Tensor",
    arguments=(
        Argument(
            name="local_embedding_shard",
            shape=("sh", "D"),
            values="long-tailed, every row with a factor of its own; rows R*sh to (R+1)*sh - 1 of the table",
        ),
        Argument(
            name="input_node_ids",
            shape=("Q",),
            dtype="int64",
            values="ids in [0, Nn) with repetition; owners are asked for unequal shares, on more than two ranks one "
            "for nothing, and some nodes are popular; new on every rank and call",
        ),
        Argument(name="proj_matrix", shape=("D", "D"), values="standard normal, different on every rank"),
        Argument(name="num_total_nodes", kind=ArgumentKind.INTEGER, dtype="int", values="Nn; at tiny no multiple of W"),
        WORLD_GROUP,
    ),
    outputs=(
        Output(
            name="out",
            shape=("Q", "D"),
            placement=Placement.PER_RANK,
            tolerance=Tolerance(
                atol=0.01,
                rtol=0.01,
                rms=0.0042,
                scope=Scope.ROW,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, tiny, 2 and 4 ranks, 3 calls. Honest "
                "programs (whole table gathered; float32; distinct rows; projected at the owner) err by at most 0.0028 "
                "and 0.0018 rms. The cheapest cheat (rows in int8 with a scale each) errs by at least 0.028 and 0.0099 "
                "rms.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=tiny, system="a check on CPU ranks"),
        SizeName.BASE: Size(
            dims=base,
            least_world_size=4,
            system="the card's size: 20000 queries to 111 million rows of 256 elements (28.4 GB per rank on two ranks, "
            "7.1 GB on eight)",
        ),
        SizeName.LARGE: Size(
            dims=large,
            system="ogbn-papers100M (111059956 nodes, 128 features): the nodes of a batch of 1024 seeds per rank with "
            "fanouts 15, 10 and 5, at most 937984",
        ),
    },
    cost=cost,
    world_size_rule="any; at least 4 where base is judged, for its shards",
    hops=(
        Hop(source="rank r", target="rank d", payload="how many rows are wanted", pattern=Communication.ALL_TO_ALL),
        Hop(source="rank r", target="rank d", payload="ids of rows that d owns", pattern=Communication.ALL_TO_ALL_V),
        Hop(source="rank d", target="rank r", payload="these rows", pattern=Communication.ALL_TO_ALL_V),
    ),
    mutants_not_applicable=dict.fromkeys(
        ("last_rank_skipped", "shards_wrong_order"),
        "changed counts would make ranks wait for ids that nobody sends; the mutants owners_by_remainder and "
        "own_rows_only stand for it",
    ),
    counted_flops=Reading(
        least=1.17,
        most=1.18,
        reason="The reference multiplies the row of every query; the model counts those of different nodes.",
    ),
    counted_wire=Reading(
        least=1.0,
        most=2.1,
        reason="The model counts the mean over ranks; the owner of popular rows sends more than others.",
    ),
    notes=(
        "On two ranks a shard at base takes 28.4 GB, of which the judge holds up to five: base is not judged there.",
    ),
    regimes=(
        Regime(
            name="one_owner", words="all queries of all ranks name rows of one rank", settings={"queries": "one_owner"}
        ),
        Regime(
            name="own_rows",
            words="every rank asks for rows of its own alone, so that nothing travels",
            settings={"queries": "own"},
        ),
        Regime(
            name="fewer_nodes",
            words="the last shard ends with W - 1 rows that are no nodes",
            settings={"nodes": "fewest"},
            least_world_size=4,
        ),
        Regime(
            name="spread_rows",
            words="rows of the table have sizes from 1e-28 to 1e12",
            settings={"rows": "spread"},
            apart=("tiny_values",),  # Their products would be subnormal.
        ),
        *(_also_in_part(also_larger(regime)) for regime in of_product("local_embedding_shard", "proj_matrix")),
        replace(
            other_extents(sh=Extent(low=2, high=400), Q=Extent(high=1000), derive=_of_short_shards),
            words="tensors have other extents than usual, and the last row of the last shard may be a node, too",
            settings={"nodes": Among(options=("usual", "all"))},
            apart=("fewer_nodes",),  # The last of short shards would have no row that is a node.
        ),
        replace(
            long_extent(
                "many_rows",
                sh=Extent(low=32_769, high=70_000),
                Q=Extent(low=1025, high=70_000),
                derive=_of_short_shards,
            ),
            words="shards have tens of thousands of rows, and a rank asks for thousands or more",
            at_large=False,
        ),
    ),
    invariants=(
        "Tensors are contiguous.",
        "Values of `proj_matrix` are zero, or from 1e-18 to 2e8 in size.",
        "A row of the table is zero, or its largest value is of a size from 1e-31 to 1e29.",
        "`group` is None, the world group.",
        "Every rank asks for as many rows, and their number may be odd.",
        "Shards have equal length: the last rank's may end with rows that are no nodes, but has one that is.",
        "Rows have 32, 128 or 256 elements, and `proj_matrix` is as wide as it is high.",
    ),
)
