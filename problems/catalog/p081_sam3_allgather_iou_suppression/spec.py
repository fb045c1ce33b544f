"""All-gather of object masks and suppression of duplicates, described."""

from collections.abc import Callable
from dataclasses import replace

from problems.spec.ranges import Extent, Real, Whole
from problems.spec.regimes import SPREAD_VALUES
from problems.spec.schema import (
    ALL_OTHERS,
    EXACT,
    WORLD_GROUP,
    Argument,
    ArgumentKind,
    Axis,
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

_KEPT_SHARE = 0.35
"""Of the objects of a call: between 0.3 and 0.9 are kept, on average 0.47 (large, 8 ranks) to 0.7."""


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """The masks of the other ranks that are kept have to arrive; one that gives way is a constant everywhere.

    An object's owner can decide whether it gives way by masks that arrive anyway, or all ranks by masks of one bit per
    pixel. Of the overlaps only a comparison per own pixel is counted: bits are counted quickly, and most pairs are far
    apart. Which rank holds how many objects changes from call to call: the mean is counted.
    """
    objects, pixels = dims["O"], dims["Hm"] * dims["Wm"]
    foreign = (world_size - 1) / world_size * objects
    return Cost(
        flops={"fp32": objects / world_size * pixels},
        memory_bytes=objects / world_size * pixels * element_bytes + 4 * objects * pixels,
        wire_bytes=_KEPT_SHARE * foreign * pixels * element_bytes,
        reference_wire_bytes=(world_size - 1) * dims["n_max"] * pixels * element_bytes,
        note=f"{_KEPT_SHARE:.0%} of the objects are counted as kept, fewer than on average; the reference "
        "sends all masks, padded to the largest count.",
    )


def _tracked(per_rank: tuple[int, int], *, side: int) -> Callable[[int], Dims]:
    """Between `per_rank` objects on a rank (both ends included), spread evenly over the ranks; masks are square."""
    low, high = per_rank

    def dims(world_size: int) -> Dims:
        counts = [low + rank % (high - low + 1) for rank in range(world_size)]
        return {"O": sum(counts), "n_min": low, "n_max": max(counts), "Hm": side, "Wm": side, "W": world_size}

    return dims


def _large(world_size: int) -> Dims:
    counts = [48 + 8 * (rank % 5) for rank in range(world_size)]
    return {"O": sum(counts), "n_min": 48, "n_max": max(counts), "Hm": 288, "Wm": 288, "W": world_size}


def among(_axis: Axis, dims: Dims, value: int, world_size: int) -> Dims:
    """About half as many objects on one rank as the mean, and half as many more on another."""
    mean = value // world_size
    spread = max(1, mean // 2)
    return {**dims, "O": value, "n_min": max(1, mean - spread), "n_max": mean + spread}


def _square(dims: Dims, _world_size: int) -> Dims:
    """`dims` with masks as wide as high."""
    return {**dims, "Wm": dims["Hm"]}


def _near_the_threshold(style: str, words: str) -> Regime:
    return Regime(
        name=f"{style}_threshold",
        words=f"{words}, and a mask or two cover all pixels",
        settings={"threshold": style},
        dims={"Hm": Extent(low=256, high=288, of=32)},
        derive=_square,
        apart=(ALL_OTHERS,),
    )


PROBLEM = Problem(
    number=81,
    slug="sam3_allgather_iou_suppression",
    title="All-gather of object masks and IoU-based duplicate suppression",
    summary="Masks and scores of all ranks are gathered; of strongly overlapping pairs the object that was occluded "
    "more recently is suppressed.",
    origin="SAM 3 (multi-GPU video tracking, suppression of overlapping masks by recency of occlusion)",
    parallelism=(Parallelism.DATA,),
    communication=(Communication.ALL_GATHER,),
    block=Block.VISION,
    stage=(Stage.INFERENCE,),
    domain=Domain.VISION,
    signature="solution(low_res_masks_local: Tensor, obj_scores_local: Tensor, num_obj_per_gpu: List[int], "
    "last_occluded: Tensor, iou_threshold: float = 0.7, reverse: bool = False, group: Optional[ProcessGroup] = None) "
    "-> Tuple[Tensor, Tensor, Tensor]",
    arguments=(
        Argument(
            name="low_res_masks_local",
            shape=("num_obj_per_gpu[R]", "Hm", "Wm"),
            values="logits of discs with noise; most objects are shifted copies of another one, often on another rank",
        ),
        Argument(name="obj_scores_local", shape=("num_obj_per_gpu[R]",), values="normal, different on every rank"),
        Argument(
            name="num_obj_per_gpu",
            kind=ArgumentKind.INTEGERS,
            shape=("W",),
            dtype="int",
            values="uneven counts in a secret order, new on every call, the same on all ranks",
            replicated=True,
        ),
        Argument(
            name="last_occluded",
            shape=("O",),
            dtype="int64",
            values="secret integers from -1 (about a third of them), in timed calls to 6, the same on all ranks",
            replicated=True,
        ),
        Argument(name="iou_threshold", kind=ArgumentKind.REAL, dtype="float", values="0.7 in timed calls"),
        Argument(name="reverse", kind=ArgumentKind.BOOLEAN, dtype="bool", values="False or True, secret"),
        WORLD_GROUP,
    ),
    outputs=(
        Output(
            name="masks_global",
            shape=("O", "Hm", "Wm"),
            dtype="float32",
            placement=Placement.REPLICATED,
            tolerance=EXACT,
        ),
        Output(name="scores_global", shape=("O",), dtype="float32", placement=Placement.REPLICATED, tolerance=EXACT),
        Output(name="to_suppress", shape=("O",), dtype="bool", placement=Placement.REPLICATED, tolerance=EXACT),
    ),
    sizes={
        SizeName.TINY: Size(dims=_tracked((7, 10), side=48), system="a check on CPU ranks"),
        SizeName.BASE: Size(
            dims=_tracked((1, 3), side=256), system="one to three objects per rank, masks of 256 x 256"
        ),
        SizeName.LARGE: Size(
            dims=_large,
            system="SAM 3 tracking a crowd: 48 to 80 objects per rank, masks of 288 x 288 (images of 1008 in patches "
            "of 14, four mask pixels per patch)",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="every rank",
            target="every rank",
            payload="its masks and scores, as many as it tracks",
            pattern=Communication.ALL_GATHER,
        ),
    ),
    counted_flops=Reading(
        least=55,
        most=300,
        reason="The reference finds the overlaps of all pairs by a product of matrices; the model counts one operation "
        "per pixel.",
    ),
    mutants_not_applicable={
        f"stale_argument:{name}": "the number of local objects changes from call to call, so its shape betrays it"
        for name in ("low_res_masks_local", "obj_scores_local")
    },
    regimes=(
        Regime(
            name="other_threshold",
            words="iou_threshold is another number",
            settings={"threshold": Real(low=1e-9, high=0.99, often=(1e-9, 0.3, 0.5))},
            narrow="usual_numbers",
        ),
        Regime(
            name="exact_copies",
            words="iou_threshold is 1 and some objects cover the same pixels, two of them a single one: their IoU is 1",
            settings={"threshold": 1.0, "exact_copies": True},
        ),
        _near_the_threshold("reached", "an IoU is iou_threshold as a float32 number, but below it in float64"),
        _near_the_threshold("missed", "an IoU is the float32 number below iou_threshold"),
        Regime(
            name="zero_logits",
            words="many mask logits are exactly 0, and others above 0 are subnormal",
            settings={"zero_logits": True},
        ),
        Regime(
            name="empty_masks",
            words="two objects that were hidden at different times have no pixel",
            settings={"empty_masks": True},
            hides=True,
        ),
        replace(SPREAD_VALUES, words="mask logits and scores are of all sizes from 1e-30 to 1e30"),
        Regime(
            name="late_frames",
            words="last_occluded holds high numbers, neighbours too",
            settings={"first_frame": Whole(low=300, high=2_000_000_000, often=(1 << 24, 3 << 24))},
        ),
        Regime(
            name="later_frames",
            words="last_occluded holds numbers that 32 bits with a sign do not",
            settings={"first_frame": Whole(low=1 << 31, high=(1 << 32) - 6)},
        ),
        Regime(
            name="odd_masks",
            words="masks are higher than wide, and the number of their pixels is odd",
            dims={"Hm": 53, "Wm": 37},
        ),
        Regime(name="idle_rank", words="one rank has no object", settings={"counts": "one_is_idle"}),
        Regime(
            name="few_objects",
            words="there are so few objects, all on one rank",
            settings={"counts": "one_has_all"},
            dims={"O": Extent(high=12)},
        ),
        Regime(
            name="one_rank_has_most",
            words="there are so many objects, and every rank but one has a single one",
            settings={"counts": "one_has_most"},
            dims={"O": Extent(low=65, high=320)},
        ),
    ),
    invariants=(
        "Tensors are contiguous.",
        "`group` is None, the world group.",
        "Mask logits and scores are at most 1e32 in size.",
        "There is an object; a rank may have none.",
        "All ranks together have at most 512 objects, or 80 per rank where that is more.",
        "All masks of a call have 48 x 48, 53 x 37, 256 x 256 or 288 x 288 pixels.",
        "`last_occluded` lies between -1 and 2^32 and is the same on all ranks.",
        "`iou_threshold` lies between 1e-9 and 1; an IoU may be the same float32 number.",
    ),
    axes=(
        Axis(
            name="tracked objects",
            symbol="O",
            unit="objects",
            values={SizeName.TINY: (8, 16, 32, 64), SizeName.BASE: (16, 32, 64, 128, 256, 512)},
            fixed="masks of 256 x 256 (48 x 48 on CPU ranks), IoU threshold 0.7; objects of all ranks count",
            dims=among,
        ),
    ),
)
