"""Push of sparse embedding rows to their owners, described."""

from problems.spec.ranges import Among, Extent, Real
from problems.spec.regimes import COPIED_VALUES, long_extent, of_tensor, other_extents
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
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

_PAPERS = 111_059_956
"""Nodes of ogbn-papers100M, whose embeddings have 128 elements."""

_NODES_PER_BATCH = 1024 * (1 + 15 + 15 * 10 + 15 * 10 * 5)
"""Most nodes that 1024 seeds reach with fanouts 15, 10 and 5, the usual ones for that graph."""


def _dims(*, nodes: int, pairs: int, width: int, world_size: int) -> Dims:
    """Sizes with the number of nodes rounded up to a multiple of the world size."""
    return {"Nn": -(-nodes // world_size) * world_size, "nnz": pairs, "h": width}


def _as_many_nodes_on_every_rank(dims: Dims, world_size: int) -> Dims:
    """Another number of nodes, rounded up to a multiple of the world size."""
    return {**dims, "Nn": -(-dims["Nn"] // world_size) * world_size}


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Every pair is read and written once, in the mean over ranks and calls.

    The largest shares fall on random owners, so on average 1/W of the pairs stay where they are.
    """
    pairs = dims["nnz"] * (8 + element_bytes * dims["h"])
    sent = (world_size - 1) / world_size * pairs
    return Cost(
        flops={},
        memory_bytes=2 * pairs,
        wire_bytes=sent,
        reference_wire_bytes=sent + 8 * (world_size - 1),
        note="A mean over calls: how many pairs live elsewhere varies, and the busiest rank of a call moves more.",
    )


PROBLEM = Problem(
    number=67,
    slug="gnn_sparse_embedding_all2all",
    title="Push sparse embedding rows to their owners",
    summary="Pairs of a node id and a row go to the rank that owns the id (id mod W), by source, order kept.",
    origin="DGL (sparse push of distributed embeddings, remainder partition)",
    parallelism=(Parallelism.GRAPH, Parallelism.TABLE),
    communication=(Communication.ALL_TO_ALL, Communication.ALL_TO_ALL_V),
    block=Block.EMBEDDING,
    stage=(Stage.TRAINING,),
    domain=Domain.GRAPH,
    signature="solution(idx: Tensor, value: Tensor, num_nodes: int, group: ProcessGroup or None = None) "
    "-> tuple[Tensor, Tensor]",
    arguments=(
        Argument(
            name="idx",
            shape=("nnz",),
            dtype="int64",
            values="ids in [0, Nn) with repetition; owners get unequal shares, on more than two ranks one gets "
            "nothing, and some nodes are popular; new on every rank and call",
        ),
        Argument(name="value", shape=("nnz", "h"), values="standard normal, different on every rank"),
        Argument(name="num_nodes", kind=ArgumentKind.INTEGER, dtype="int", values="Nn, a multiple of W"),
        WORLD_GROUP,
    ),
    outputs=(
        Output(name="recv_idx", shape=("received",), dtype="int64", placement=Placement.PER_RANK, tolerance=EXACT),
        Output(name="recv_value", shape=("received", "h"), placement=Placement.PER_RANK, tolerance=EXACT),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: _dims(nodes=300, pairs=120, width=16, world_size=world_size),
            system="a check on CPU ranks",
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: _dims(nodes=100_000, pairs=1024, width=128, world_size=world_size),
            system="the card's size: 1024 pairs per rank, rows of 128 elements",
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: _dims(nodes=_PAPERS, pairs=_NODES_PER_BATCH, width=128, world_size=world_size),
            system="ogbn-papers100M (111059956 nodes, 128 elements): gradients of a batch of 1024 seeds per rank with "
            "fanouts 15, 10 and 5, at most 937984 nodes",
        ),
    },
    cost=cost,
    hops=(
        Hop(source="rank r", target="rank d", payload="how many pairs will come", pattern=Communication.ALL_TO_ALL),
        Hop(
            source="rank r",
            target="rank d",
            payload="the ids with id mod W = d, and their rows",
            pattern=Communication.ALL_TO_ALL_V,
        ),
    ),
    mutants_not_applicable=dict.fromkeys(
        ("last_rank_skipped", "shards_wrong_order"),
        "changed counts would make ranks wait for pairs that nobody sends; the mutants own_pairs_only and sorted_by_id "
        "stand for it",
    ),
    counted_wire=Reading(
        least=1.0,
        most=2.1,
        reason="The model counts the mean over ranks; the owner of popular rows receives more than others.",
    ),
    lengths_vary=True,
    regimes=(
        Regime(
            name="one_owner",
            words="all pairs of all ranks belong to one rank, and the others receive none",
            settings={"ids": "one_owner"},
            at_large=False,
        ),
        Regime(
            name="own_pairs",
            words="all pairs are on their owner already, or those of one rank alone, or one rank has equally many for "
            "every owner, while the others' are as usual",
            settings={"ids": Among(options=("even_on_one", "own_on_one", "own"))},
        ),
        Regime(name="no_pairs", words="no rank has a pair", dims={"nnz": 0}),
        Regime(
            name="many_nodes",
            words="there are up to 2^16 or 2^32 nodes, `share` of that number, or 2^40 for each rank, so that "
            "numbers need 16 bits or more; one rank may name only a few of the least",
            settings={
                "bits": Among(options=("16", "32", "40")),
                "share": Real(low=0.6, high=1.0),
                "least_on": Among(options=("no_rank", "one_rank")),
            },
        ),
        *of_tensor("value", *COPIED_VALUES),
        other_extents(
            Nn=Extent(high=900), nnz=Extent(high=700), h=Extent(high=260), derive=_as_many_nodes_on_every_rank
        ),
        long_extent("long_rows", nnz=Extent(high=20), h=Extent(low=1025, high=9000)),
        long_extent("many_pairs", nnz=Extent(low=32_769, high=70_000), h=Extent(high=9)),
    ),
    invariants=(
        "Tensors are contiguous.",
        "`group` is None, the world group.",
        "All ranks have the same number of pairs, which may be 0.",
        "`num_nodes` is a multiple of the world size, and at most 2^40 times the world size.",
        "Rows have the same number of elements on all ranks, which may be odd.",
    ),
)
