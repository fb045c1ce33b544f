"""Redistribution of jagged features of a recommender, described."""

from dataclasses import replace

from problems.spec.ranges import Among, Extent, Whole
from problems.spec.regimes import MANY, long_extent, other_extents
from problems.spec.schema import (
    ALL_OTHERS,
    EXACT,
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

_VALUES_PER_BAG = 8
_BATCH = 65_536
"""Samples of a batch of DLRM-DCNv2 as MLPerf trains it."""


def _dims(*, batch: int, world_size: int) -> Dims:
    """Rank r owns 1 + r mod 3 of the F features; every rank brings `batch` samples and T values."""
    features = sum(1 + rank % 3 for rank in range(world_size))
    bags = features * batch
    return {"F": features, "Bt": batch, "bags": bags, "T": _VALUES_PER_BAG * bags, "W": world_size}


def _all_bags(dims: Dims, _world_size: int) -> Dims:
    """The bags of all features, where there is another number of samples."""
    return {**dims, "bags": dims["F"] * dims["Bt"]}


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Lengths and values are read and written once, in the mean over ranks; a rank owns 1 to 3 features."""
    del element_bytes
    remote = (world_size - 1) / world_size
    return Cost(
        flops={},
        memory_bytes=2 * 8 * (dims["bags"] + dims["T"]),
        wire_bytes=remote * 2.5 * dims["T"],
        reference_wire_bytes=remote * 8 * (dims["bags"] + dims["T"]) + 16 * (world_size - 1),
        note="Numbers below a million need 20 bits on the way; the reference sends 64. A mean over ranks and calls.",
    )


def _unused(name: str, kind: str) -> Argument:
    return Argument(name=name, kind=ArgumentKind.NONE, dtype=kind, values="None")


PROBLEM = Problem(
    number=70,
    slug="torchrec_kjt_all2all",
    title="Redistribution of jagged sparse features",
    summary="Each rank has all features of its batch; afterwards each has its features of all batches, in order.",
    origin="TorchRec (all-to-all of sharded embedding bags)",
    parallelism=(Parallelism.TABLE, Parallelism.DATA),
    communication=(Communication.ALL_TO_ALL, Communication.ALL_TO_ALL_V),
    block=Block.RECOMMENDER,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.RECOMMENDER,
    signature="solution(lengths: Tensor, values: Tensor, key_splits: list[int], batch_size: int, "
    "pg: ProcessGroup or None = None, weights: Tensor or None = None, "
    "stride_per_key: list[int] or None = None, stagger: int = 1) -> dict[str, Tensor]",
    arguments=(
        Argument(
            name="lengths",
            shape=("bags",),
            dtype="int64",
            values="values per bag, feature by feature; long-tailed, a quarter zero, one feature unused; they add up "
            "to T; new on every rank and call",
        ),
        Argument(name="values", shape=("T",), dtype="int64", values="uniform in [0, 1000000), different on every rank"),
        Argument(
            name="key_splits",
            kind=ArgumentKind.INTEGERS,
            shape=("W",),
            dtype="int",
            values="features that each rank owns: 1, 2, 3, 1, 2, 3, ...",
        ),
        Argument(name="batch_size", kind=ArgumentKind.INTEGER, dtype="int", values="Bt, the same on all ranks"),
        Argument(name="pg", kind=ArgumentKind.NONE, dtype="process group", values="None: the world group"),
        _unused("weights", "tensor"),
        _unused("stride_per_key", "list"),
        Argument(name="stagger", kind=ArgumentKind.INTEGER, dtype="int", values="1"),
    ),
    outputs=(
        Output(name="lengths", shape=("own_bags",), dtype="int64", placement=Placement.PER_RANK, tolerance=EXACT),
        Output(name="values", shape=("own_values",), dtype="int64", placement=Placement.PER_RANK, tolerance=EXACT),
        Output(name="stride", shape=(), dtype="int64", placement=Placement.REPLICATED, tolerance=EXACT),
        Output(name="stride_per_rank", shape=("W",), dtype="int64", placement=Placement.REPLICATED, tolerance=EXACT),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: _dims(batch=9, world_size=world_size), system="a check on CPU ranks"
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: _dims(batch=max(512, min(1024 // world_size, 1024)), world_size=world_size),
            system="the card's size: 512 samples per rank",
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: _dims(batch=_BATCH, world_size=world_size),
            system="on every rank a batch of DLRM-DCNv2 as MLPerf trains it (65536 samples)",
        ),
    },
    cost=cost,
    hops=(
        Hop(source="rank r", target="rank d", payload="how many values will come", pattern=Communication.ALL_TO_ALL),
        Hop(
            source="rank r",
            target="rank d",
            payload="lengths and values of the features that rank d owns",
            pattern=Communication.ALL_TO_ALL_V,
        ),
    ),
    mutants_not_applicable=dict.fromkeys(
        ("last_rank_skipped", "shards_wrong_order"),
        "changed sizes would make ranks wait for values that nobody sends; the mutants source_major and equal_shares "
        "stand for it",
    )
    | dict.fromkeys(("squeezed_int8", "squeezed_float8"), "only integers travel"),
    notes=("Unequal batches, weights, strides per key and staggered orders of the original are not used.",),
    counted_wire=Reading(
        least=1.0,
        most=2.5,
        reason="The model counts the mean over ranks; ranks own 1, 2 or 3 features, long tails and all, so some "
        "receive much more.",
    ),
    lengths_vary=True,
    regimes=(
        Regime(
            name="other_splits",
            words="ranks own other numbers of features than in timed calls",
            settings={"splits": "reversed"},
            narrow="usual_numbers",
        ),
        Regime(
            name="one_rank_owns_most",
            words="every rank but one owns a single feature",
            settings={"splits": "one_has_most"},
            least_world_size=3,
        ),
        Regime(
            name="many_features",
            words="there are dozens of features, up to more than a hundred; one rank owns all but one for each other "
            "rank, or ranks own as many as one another, as far as that goes",
            settings={"splits": Among(options=("even", "one_has_most"))},
            dims={"F": Extent(low=12, high=150)},
            derive=_all_bags,
            at_large=False,
        ),
        Regime(
            name="one_feature_has_all",
            words="all values of all ranks belong to one feature",
            settings={"bags": "one_feature"},
            at_large=False,
            # On two ranks one has all values where the other's only feature is the unused one.
            least_world_size=3,
        ),
        Regime(name="no_values", words="all bags are empty", dims={"T": 0}),
        Regime(
            name="small_numbers",
            words="numbers in `values` are below a small one, so that many or all are zero, or are as near the largest",
            settings={"largest": Whole(low=1, high=100), "end": Among(options=("low", "high"))},
        ),
        Regime(
            name="one_bag",
            words="all of a rank's values lie in one bag",
            settings={"bags": "one"},
            dims={"T": Extent(low=512, high=70_000)},
        ),
        other_extents(Bt=Extent(high=300), T=Extent(high=3000), derive=_all_bags),
        replace(
            long_extent("long_bags", Bt=Extent(high=9), T=Extent(low=4097, high=300_000), derive=_all_bags),
            apart=(ALL_OTHERS,),
        ),
        replace(
            long_extent("many_samples", Bt=MANY, T=Extent(low=600, high=3000), derive=_all_bags),
            words="there are more samples than 16 bits can number, and few values",
            at_large=False,
            apart=(ALL_OTHERS,),
        ),
    ),
    invariants=(
        "Tensors are contiguous.",
        "`pg` is None, the world group.",
        "Numbers in `values` are below a million, and none is negative.",
        "`weights` and `stride_per_key` are None, `stagger` is 1.",
        "Every rank has as many samples, and as many values, perhaps none.",
        "Every rank owns a feature at least; `key_splits` is the same on all ranks.",
    ),
)
