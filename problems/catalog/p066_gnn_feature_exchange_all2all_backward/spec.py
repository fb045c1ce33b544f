"""Backward of the cooperative feature exchange of graph learning, described."""

from dataclasses import replace

from problems.families.one_rank_spec import also_larger
from problems.families.seed_exchange_spec import EXCHANGES
from problems.spec.ranges import Extent
from problems.spec.regimes import SUMMED_VALUES, long_extent, other_extents
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
    Size,
    SizeName,
    Tolerance,
    fixed,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

_DISTINCT_SHARE = 0.35
"""Below the share of a piece's rows that are a seed's first there: 0.39 to 0.75 (simulated, 2 to 8 ranks)."""

_SEEDS_PER_RANK = 1024
_FANOUT = 25
"""Seeds and neighbours of the first hop of the MAG240M baselines of OGB-LSC, whose hidden size is 1024."""

_NODES = _SEEDS_PER_RANK * (1 + _FANOUT)

_MOST_OF_ONE_SEED = 512
"""Timed calls name a seed 233 times at most. Sums of 26,000 rows in float32 would err beyond the bound."""


def base(world_size: int) -> Dims:
    """The card's sizes."""
    rows = max(64, min(1024 // world_size, 1024)) * world_size
    return {"F": rows // 2, "T": rows, "h": 128}


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Every gradient row is read once, every seed's sum written once.

    An eighth of the rows and, on average, 1/W of five more eighths stay at home.
    Gradients are float32 whatever the run's dtype.
    """
    del element_bytes
    rows = 4 * dims["T"] * dims["h"]
    remote = (1 / 4 + 5 / 8 * (world_size - 1) / world_size) * rows
    return Cost(
        flops={"fp32": dims["T"] * dims["h"]},
        memory_bytes=rows + 8 * dims["T"] + 4 * dims["F"] * dims["h"],
        wire_bytes=_DISTINCT_SHARE * remote,
        reference_wire_bytes=remote,
        note="A mean over calls: how many rows stay on their rank varies. Rows of one seed could be added up before "
        "they leave, if the sender were told the ids.",
    )


_COUNTS = "secret, uneven, some zero; they add up to T"

PROBLEM = Problem(
    number=66,
    slug="gnn_feature_exchange_all2all_backward",
    title="Backward of the cooperative GNN feature exchange",
    summary="Gradient rows go back to the ranks that sent the features and are summed in the rows of distinct seeds.",
    origin="DGL GraphBolt (cooperative minibatching, backward)",
    parallelism=(Parallelism.GRAPH,),
    communication=(Communication.ALL_TO_ALL_V,),
    block=Block.GRAPH,
    stage=(Stage.TRAINING,),
    domain=Domain.GRAPH,
    signature="solution(grad_output: Tensor, seed_inverse_ids: Tensor, seed_size: int, counts_sent: list[int], "
    "counts_received: list[int], group: ProcessGroup or None = None) -> Tensor",
    arguments=(
        Argument(
            name="grad_output",
            shape=("T", "h"),
            dtype="float32",
            values="normal times a log-normal scale per element; different on every rank",
        ),
        Argument(
            name="seed_inverse_ids",
            shape=("T",),
            dtype="int64",
            values="the seed of every row that comes back, some far more often than others, some never; new on every "
            "rank and call",
        ),
        Argument(name="seed_size", kind=ArgumentKind.INTEGER, dtype="int", values="F, the number of seeds"),
        Argument(
            name="counts_sent",
            kind=ArgumentKind.INTEGERS,
            shape=("W",),
            dtype="int",
            values=f"rows of grad_output for each relative rank; {_COUNTS}",
        ),
        Argument(
            name="counts_received",
            kind=ArgumentKind.INTEGERS,
            shape=("W",),
            dtype="int",
            values="rows that come from each relative rank: entry i is entry W-i of the counts_sent of rank r+i",
        ),
        WORLD_GROUP,
    ),
    outputs=(
        Output(
            name="grad_features",
            shape=("F", "h"),
            dtype="float32",
            placement=Placement.PER_RANK,
            tolerance=Tolerance(
                atol=6e-5,
                rtol=6e-5,
                rms=1.3e-5,
                calibration="2026-11-21, CPU, torch 2.13, gloo, 2 and 4 ranks, tiny. Honest programs (float32 in "
                "either order, float64) err by at most 3.8e-7 and 8.3e-8 rms. The cheapest cheat (bfloat16 payload) "
                "errs by at least 0.0096 and 0.0021 rms.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=fixed(F=60, T=120, h=16), system="a check on CPU ranks"),
        SizeName.BASE: Size(dims=base, system="the card's size: 1024 rows of 128 elements per rank"),
        SizeName.LARGE: Size(
            dims=fixed(F=_NODES // 2, T=_NODES, h=1024),
            system="hidden layer (1024 elements) of the OGB-LSC baseline for MAG240M: 1024 seeds per rank with their "
            "25 neighbours, 26624 rows",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="rank r",
            target="rank (r + i) mod W",
            payload="counts_sent[i] float32 gradient rows",
            pattern=Communication.ALL_TO_ALL_V,
        ),
    ),
    mutants_not_applicable={
        "shards_wrong_order": "pieces differ in length; the mutant sources_in_rank_order stands for it"
    },
    counted_wire=Reading(
        least=0.7,
        most=1.4,
        reason="The model counts the mean over ranks and calls; in one call the busiest rank sends or receives more.",
    ),
    regimes=(
        *EXCHANGES,
        Regime(
            name="one_seed",
            words="one seed is named by 512 of a rank's `seed_inverse_ids`, at `tiny` by all of them",
            settings={"rows_of_one_seed": _MOST_OF_ONE_SEED},
        ),
        Regime(name="seven_seeds", words="seed_size is 7", dims={"F": 7}),
        *map(also_larger, SUMMED_VALUES),
        replace(
            other_extents(F=Extent(high=500), T=Extent(high=700), h=Extent(high=200)),
            words="tensors have other extents than usual, and half of all gradients are zero",
            settings={"zeros": "half"},
        ),
        long_extent("long_rows", F=Extent(high=20), T=Extent(high=20), h=Extent(low=1025, high=9000)),
        Regime(
            name="common_part",
            words="all gradients have 2 added, so that a sum over thousands of rows is far larger than that of a seed; "
            "rows times seeds are more than 32 bits can number",
            settings={"common": 2.0},
            dims={
                "F": Extent(low=65_600, high=80_000),
                "T": Extent(low=65_600, high=70_000),
                "h": Extent(high=5),
            },
        ),
    ),
    invariants=(
        "Tensors are contiguous.",
        "Gradients are zero, or from 1e-21 to 1e11 in size.",
        "`group` is None, the world group.",
        "Every rank sends T rows and receives T.",
        "T, F and the h elements of a row may be odd; all are equal on all ranks.",
        "Where gradients have a large common part, a seed has 900 rows at most.",
    ),
)
