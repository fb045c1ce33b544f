"""Cooperative feature exchange of graph learning, described."""

from problems.families.seed_exchange_spec import EXCHANGES
from problems.spec.ranges import Extent
from problems.spec.regimes import COPIED_VALUES, long_extent, other_extents
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

_DISTINCT_SHARE = 0.35
"""Below the share of a piece's rows that it names for the first time: 0.48 to 0.79 (simulated, 2 to 8 ranks)."""

_SEEDS_PER_RANK = 1024
_FANOUTS = (25, 15)
"""Seeds and neighbours per hop of the MAG240M baselines of OGB-LSC, whose papers have 768 features."""

_NODES = _SEEDS_PER_RANK * (1 + _FANOUTS[0] + _FANOUTS[0] * _FANOUTS[1])


_MANY_ROWS = Extent(low=32_769, high=70_000)


def base(world_size: int) -> Dims:
    """The card's sizes."""
    rows = max(64, min(1024 // world_size, 1024)) * world_size
    return {"F": rows * 3 // 4, "T": rows, "h": 128}


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Every looked-up row is written once, every distinct one read once.

    An eighth of the rows and, on average, 1/W of five more eighths stay at home.
    """
    rows = dims["T"] * dims["h"] * element_bytes
    remote = (1 / 4 + 5 / 8 * (world_size - 1) / world_size) * rows
    return Cost(
        flops={},
        memory_bytes=dims["F"] * dims["h"] * element_bytes * _DISTINCT_SHARE + 8 * dims["T"] + rows,
        wire_bytes=_DISTINCT_SHARE * remote,
        reference_wire_bytes=remote,
        note="A mean over calls: how many rows stay on their rank varies. A row that a piece names more than once "
        "needs to cross once.",
    )


PROBLEM = Problem(
    number=65,
    slug="gnn_feature_exchange_all2all",
    title="Cooperative GNN feature exchange",
    summary="Rows of the local features are looked up by index and go to the ranks that asked, own piece first.",
    origin="DGL GraphBolt (cooperative minibatching, forward)",
    parallelism=(Parallelism.GRAPH,),
    communication=(Communication.ALL_TO_ALL_V,),
    block=Block.GRAPH,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.GRAPH,
    signature="solution(local_features: Tensor, seed_inverse_ids: Tensor, counts_sent: list[int], "
    "counts_received: list[int], group: ProcessGroup or None = None) -> Tensor",
    arguments=(
        Argument(name="local_features", shape=("F", "h"), values="standard normal, different on every rank"),
        Argument(
            name="seed_inverse_ids",
            shape=("T",),
            dtype="int64",
            values="rows of local_features, some asked for far more often than others; new on every rank and call",
        ),
        Argument(
            name="counts_sent",
            kind=ArgumentKind.INTEGERS,
            shape=("W",),
            dtype="int",
            values="rows that come from each relative rank; secret, uneven, some zero; they add up to T",
        ),
        Argument(
            name="counts_received",
            kind=ArgumentKind.INTEGERS,
            shape=("W",),
            dtype="int",
            values="rows that go to each relative rank: entry i is entry W-i of the counts_sent of rank r+i",
        ),
        WORLD_GROUP,
    ),
    outputs=(Output(name="out", shape=("T", "h"), placement=Placement.PER_RANK, tolerance=EXACT),),
    sizes={
        SizeName.TINY: Size(dims=fixed(F=90, T=120, h=16), system="a check on CPU ranks"),
        SizeName.BASE: Size(dims=base, system="the card's size: 1024 rows of 128 features per rank"),
        SizeName.LARGE: Size(
            dims=fixed(F=_NODES * 3 // 4, T=_NODES, h=768),
            system="input features of a minibatch on MAG240M (768 features per paper) as the OGB-LSC baseline samples "
            "it: 1024 seeds per rank, fanouts 25 and 15, at most 410624 rows",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="rank r",
            target="rank (r + i) mod W",
            payload="counts_received[i] rows, looked up by piece i of the ids",
            pattern=Communication.ALL_TO_ALL_V,
        ),
    ),
    mutants_not_applicable={
        "shards_wrong_order": "pieces differ in length; the mutant sources_in_rank_order stands for it"
    },
    counted_wire=Reading(
        least=0.8,
        most=1.4,
        reason="The model counts the mean over ranks and calls; in one call the busiest rank sends or receives more.",
    ),
    regimes=(
        *EXCHANGES,
        Regime(
            name="one_seed",
            words="all of a rank's `seed_inverse_ids` name one seed",
            settings={"rows_of_one_seed": _NODES},
        ),
        *COPIED_VALUES,
        other_extents(F=Extent(high=500), T=Extent(high=700), h=Extent(high=260)),
        long_extent("long_rows", F=Extent(high=20), T=Extent(high=20), h=Extent(low=1025, high=9000)),
        long_extent(
            "many_rows", F=Extent(low=32_769, high=70_000), T=Extent(low=32_769, high=70_000), h=Extent(high=9)
        ),
    ),
    invariants=(
        "Tensors are contiguous.",
        "`group` is None, the world group.",
        "Every rank sends T rows and receives T.",
        "T, the F features and the h elements of a row may be odd; all are equal on all ranks.",
    ),
)
