"""Distributed k-nearest-neighbour search, described."""

from dataclasses import replace

from problems.spec.ranges import Among, Extent, Whole
from problems.spec.regimes import other_extents
from problems.spec.schema import (
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
    Tolerance,
    fixed,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

IMAGENET_ROWS = 1281167
"""Training images of ImageNet-1k."""


def base(world_size: int) -> Dims:
    """The card's formulas at M = N = 1024."""
    rows = max(1024, min(1024 * 16 // max(world_size, 1), 16384))
    return {"nq": 32, "nl": rows, "D": 384, "k": min(200, rows)}


def large(world_size: int) -> Dims:
    """A batch of 256 queries per rank against the features of ImageNet-1k under ViT-L/14."""
    return {"nq": 256, "nl": -(-IMAGENET_ROWS // world_size), "D": 1024, "k": 200}


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """All queries against the rank's training rows; features read once.

    Every rank has to receive the other ranks' queries (the training features are more). Of the candidates that travel
    back nothing is counted: how many a clever search needs depends on the data.
    """
    queries, rows, width, count = (dims[name] for name in ("nq", "nl", "D", "k"))
    peers = world_size - 1
    return Cost(
        flops={"matmul": 2 * world_size * queries * width * rows},
        memory_bytes=element_bytes * (queries * width + width * rows)
        + 8 * rows
        + queries * count * (element_bytes + 8),
        wire_bytes=peers * queries * width * element_bytes,
        reference_wire_bytes=peers * queries * (width * element_bytes + count * (element_bytes + 8)),
        note="Counts the queries alone; the reference also sends k candidates per query and rank, labels in 8 bytes.",
    )


def _all_rows(dims: Dims, _world_size: int) -> Dims:
    """`dims` where as many neighbours are asked for as a rank has rows."""
    return {**dims, "k": dims["nl"]}


PROBLEM = Problem(
    number=79,
    slug="dinov2_distributed_knn",
    title="Distributed k-nearest-neighbour search",
    summary="The k nearest of training features that are split over ranks, for every rank's own queries.",
    origin="DINOv2 (k-NN evaluation)",
    parallelism=(Parallelism.DATA,),
    communication=(Communication.BROADCAST, Communication.GATHER),
    block=Block.VISION,
    stage=(Stage.INFERENCE,),
    domain=Domain.VISION,
    signature="solution(test_features_rank: Tensor, train_features_rank_T: Tensor, train_labels_rank: Tensor, "
    "max_k: int, group: Optional[ProcessGroup] = None) -> Tuple[Tensor, Tensor]",
    arguments=(
        Argument(
            name="test_features_rank", shape=("nq", "D"), values="unit rows, near class centres that all ranks share"
        ),
        Argument(
            name="train_features_rank_T",
            shape=("D", "nl"),
            values="unit columns, some near and some far from the same centres; k/2 to a class",
        ),
        Argument(
            name="train_labels_rank",
            shape=(1, "nl"),
            dtype="int64",
            values="the rank's part of a permutation of 0 to W*nl - 1 in timed calls: every training row has a label "
            "of its own",
        ),
        Argument(name="max_k", kind=ArgumentKind.INTEGER, values="k"),
        Argument(name="group", kind=ArgumentKind.GROUP, values="None: the world group"),
    ),
    outputs=(
        Output(
            name="topk_sims",
            shape=("nq", "k"),
            placement=Placement.PER_RANK,
            tolerance=Tolerance(
                atol=0.001,
                rtol=0.008,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, tiny, 2 and 4 ranks, 3 calls. Honest "
                "programs (float32, all queries at once, training features gathered) err by at most 0.0036 of an "
                "element's size. The cheapest cheats (exchange in int8, features in float8) err by at least 0.020.",
            ),
        ),
        Output(
            name="topk_labels",
            shape=("nq", "k"),
            dtype="int64",
            placement=Placement.PER_RANK,
            tolerance=Tolerance(
                atol=0.0015,
                rtol=0.012,
                calibration="As the similarities, on the exact similarity of the row that a label names. 2026-11-21, "
                "CPU, torch 2.13, gloo, bfloat16, tiny, 2 and 4 ranks, 3 calls. Honest programs, which break ties "
                "after rounding, err by at most 0.0064 of its size, cheats by at least 0.029.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=fixed(nq=24, nl=512, D=256, k=50), system="a smoke test on CPU ranks"),
        SizeName.BASE: Size(dims=base, system="the card's size"),
        SizeName.LARGE: Size(
            dims=large,
            system="k-NN evaluation of DINOv2 ViT-L/14 (1024 features) on ImageNet-1k (1281167 training images), "
            "k = 200, batches of 256 images per GPU",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="each rank in turn",
            target="every rank",
            payload="its nq queries",
            pattern=Communication.BROADCAST,
        ),
        Hop(
            source="every rank",
            target="the owner of the queries",
            payload="its k best similarities and labels per query",
            pattern=Communication.GATHER,
        ),
    ),
    mutants_not_applicable={"shards_wrong_order": "a merge does not depend on the order in which candidates arrive"},
    notes=(
        "Labels are compared by the exact similarity of the rows that they name: the order of ties is free.",
        "Labels are all different, so they identify training rows; classes of an evaluation would repeat.",
    ),
    regimes=(
        Regime(
            name="nearest_alone",
            words="`max_k` is 1",
            settings={"rows_in_classes_of": 50},
            dims={"k": 1},
        ),
        Regime(
            name="many_neighbours",
            words="`max_k` is large",
            settings={"rows_in_classes_of": 50},
            dims={"k": Whole(low=257, high=511, often=(301,))},
        ),
        Regime(
            name="whole_shard",
            words="`max_k` is the number of rows that a rank has, nl",
            settings={"rows_in_classes_of": 50},
            dims={"nl": Extent(low=2, high=2500)},
            derive=_all_rows,
        ),
        replace(
            other_extents(nq=Extent(high=150), nl=Extent(low=64, high=5000), k=Extent(high=64)),
            settings={"rows_in_classes_of": 50},
        ),
        Regime(
            name="high_labels",
            words="labels begin with a number that float32 does not hold, or that 32 bits do not",
            settings={"first_label": Whole(low=(1 << 24) + 1, high=1 << 40, often=(1 << 31,))},
        ),
        Regime(name="one_query", words="a rank has a single query", dims={"nq": 1}),
        Regime(
            name="repeated_rows",
            words="a rank has three different rows, each of them many times",
            settings={"different_rows": 3},
        ),
        Regime(
            name="near_rows_on_one_rank",
            words="the rows that are near any query are all on one rank",
            settings={"near": "one_rank"},
        ),
        Regime(
            name="nothing_is_near",
            words="rows point away from queries, so that similarities are below -0.9 or all -1",
            settings={"near": Among(options=("no_rank", "opposite"))},
        ),
    ),
    invariants=(
        "Tensors are contiguous.",
        "`group` is None, the world group.",
        "Rows and queries have unit length to 0.2 %, and every rank has as many of each; rows may repeat.",
        "A rank has at least `max_k` rows.",
        "D is that of the size.",
        "Labels of all ranks together are W nl consecutive numbers, each once.",
        "The least label is 0, or from 2^24 + 1 to 2^40; in timed calls it is 0.",
    ),
)
