"""Ranking of positive edges among their negatives, described."""

from problems.spec.ranges import Among, Extent, Real
from problems.spec.regimes import other_extents
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

_TEST_EDGES = 598_543
_NEGATIVES = 1000
"""Test edges of ogbl-wikikg2, and the negatives that each of them is ranked against."""


FARTHER = Real(low=1, high=1e6, often=(3.0, 1000.0), by_size=True)
"""By what levels of negatives are multiplied that are far from the scores of all edges."""


def _dims(*, positives: int, negatives: int, world_size: int) -> Dims:
    """Rank r has `positives` + r mod 3 rows; P counts those of all ranks."""
    return {"p": positives, "nn": negatives, "P": sum(positives + rank % 3 for rank in range(world_size))}


def _all_edges(dims: Dims, world_size: int) -> Dims:
    """The edges of all ranks, where a rank has others than usual."""
    return _dims(positives=dims["p"], negatives=dims["nn"], world_size=world_size)


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Scores are read once and compared once; positions of all other ranks arrive."""
    rows = dims["p"] + min(world_size - 1, 2)
    others = (world_size - 1) * dims["p"]
    return Cost(
        flops={"fp32": rows * dims["nn"]},
        memory_bytes=element_bytes * rows * (dims["nn"] + 1) + 8 * dims["P"],
        wire_bytes=2 * others,
        reference_wire_bytes=8 * (world_size - 1) * (rows + 1),
        note="A position needs no more than two bytes; the reference sends int64, and the lists' lengths.",
    )


PROBLEM = Problem(
    number=69,
    slug="gnn_negative_scoring",
    title="Link-prediction ranking among negatives over all ranks",
    summary="Every rank scores edges and negatives of its own; all ranks learn where each true edge ranks.",
    origin="GraphStorm (link-prediction evaluation)",
    parallelism=(Parallelism.GRAPH, Parallelism.DATA),
    communication=(Communication.ALL_GATHER,),
    block=Block.GRAPH,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.GRAPH,
    signature="solution(local_pos_scores: Tensor, local_neg_scores: Tensor, "
    "group: ProcessGroup or None = None) -> Tensor",
    arguments=(
        Argument(
            name="local_pos_scores",
            shape=("rows",),
            values="normal around 0.5, at most 2.5; p + r mod 3 of them on rank r",
        ),
        Argument(
            name="local_neg_scores",
            shape=("rows", "nn"),
            values="normal around a level of the row's own between -4 and 1, at least about 0.2 away from the row's "
            "positive",
        ),
        WORLD_GROUP,
    ),
    outputs=(Output(name="ranking", shape=("P",), dtype="int64", placement=Placement.REPLICATED, tolerance=EXACT),),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: _dims(positives=50, negatives=200, world_size=world_size),
            system="a check on CPU ranks",
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: _dims(
                positives=max(16, min(1024 // world_size, 1280)), negatives=1000, world_size=world_size
            ),
            system="the card's size: 1024 positives over all ranks, 1000 negatives each",
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: _dims(
                positives=_TEST_EDGES // world_size, negatives=_NEGATIVES, world_size=world_size
            ),
            system="the test edges of OGB's ogbl-wikikg2 (598543, ranked against 1000 negatives each)",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="every rank",
            target="every rank",
            payload="the positions of its positives",
            pattern=Communication.ALL_GATHER,
        ),
    ),
    mutants_not_applicable=dict.fromkeys(
        ("squeezed_int8", "squeezed_float8"),
        "only integers travel; the mutant scores_in_float8 compares scores in 8 bits",
    ),
    notes=("The scores themselves need not travel: a position follows from the scores of its own row.",),
    regimes=(
        Regime(name="one_rank_is_empty", words="one rank has no edges", settings={"rows": "one_is_empty"}),
        Regime(
            name="one_rank_has_all",
            words="one rank has all edges, or every other rank a single one",
            settings={"rows": Among(options=("one_has_most", "one_has_all"))},
            at_large=False,
        ),
        Regime(
            name="one_negative",
            words="every edge has one negative, and a rank tens of thousands of edges",
            dims={"p": Extent(low=32_769, high=70_000), "nn": 1},
            derive=_all_edges,
        ),
        Regime(
            name="all_first",
            words="every edge has a larger score than its negatives",
            settings={"level": (-16, -12), "farther": FARTHER},
        ),
        Regime(
            name="all_last",
            words="every edge has a smaller score than its negatives, of which there are 255: a position is 256",
            settings={"level": (12, 16), "farther": FARTHER},
            dims={"nn": 255},
            derive=_all_edges,
        ),
        other_extents(p=Extent(high=70), nn=Extent(high=2000), derive=_all_edges),
        Regime(
            name="many_negatives",
            words="few edges have tens of thousands of negatives each, most with a larger score, or all with one just "
            "below",
            settings={"level": (1, 5), "negatives": Among(options=("most_larger", "all_just_below"))},
            dims={"p": 1, "nn": Extent(low=40_000, high=65_534)},
            derive=_all_edges,
            apart=("one_rank_has_all",),
        ),
    ),
    invariants=(
        "Tensors are contiguous.",
        "`group` is None, the world group.",
        "Scores of edges lie between -5 and 2.5, those of negatives between -2.5e7 and 2.5e7.",
        "No negative is closer than 0.19 to its edge's score.",
        "Every edge has the same number of negatives on all ranks.",
        "Edges are spread over ranks in any way: some ranks may have none, but not all.",
    ),
)
