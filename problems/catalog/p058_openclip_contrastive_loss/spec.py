"""Distributed SigLIP loss, described."""

from math import sqrt

from problems.spec.ranges import Among, Extent, Real, Whole
from problems.spec.regimes import other_extents
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
    Regime,
    Size,
    SizeName,
    Tolerance,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Every image of the world against every text, an equal part of the pairs on each rank.

    A rank that compares a ranks' images with b ranks' texts (a b = W) needs a + b - 2 shards of other ranks. That sum
    is at least 2 sqrt(W) - 2 whatever the shape. Sums of a shard's losses go back as single numbers.
    """
    features = dims["B"] * dims["D"] * element_bytes
    moved = (world_size - 1) * features
    pairs = dims["B"] * dims["B"] * world_size
    return Cost(
        flops={"matmul": 2 * pairs * dims["D"], "fp32": 4 * pairs},
        memory_bytes=2 * features + element_bytes,
        wire_bytes=2 * (sqrt(world_size) - 1) * features,
        reference_wire_bytes=moved,
        note="Images of some ranks may meet texts of some others anywhere (on 8 ranks 2 shards of images and 4 of "
        "texts on each). The reference gathers all texts everywhere.",
    )


def _split(*, pairs: int, D: int, world_size: int) -> Dims:
    return {"B": max(1, pairs // world_size), "D": D}


def _one_element_each(dims: Dims, world_size: int) -> Dims:
    """Dimensions with an element of features for every pair of the world."""
    return {**dims, "B": 1024 // world_size, "D": 1024}


_FEATURES = "unit vectors: a direction per pair, one common to all texts and images, and noise"
_PRECISION = (
    "the loss is one number, a sum over all pairs in which the rounding of single features cancels; narrow payloads "
    "cannot be told from wide ones by it"
)

PROBLEM = Problem(
    number=58,
    slug="openclip_contrastive_loss",
    title="Distributed SigLIP (sigmoid contrastive) loss with a bidirectional text ring",
    summary="The sigmoid loss of each rank's images against the texts of all ranks.",
    origin="OpenCLIP (SigLIP loss, bidirectional neighbour exchange)",
    parallelism=(Parallelism.DATA,),
    communication=(Communication.SEND_RECV,),
    block=Block.LOSS,
    stage=(Stage.TRAINING,),
    domain=Domain.VISION,
    signature="solution(image_features: Tensor, text_features: Tensor, logit_scale: float, logit_bias: float = 0.0, "
    "group: Optional[ProcessGroup] = None) -> Tensor",
    arguments=(
        Argument(name="image_features", shape=("B", "D"), values=_FEATURES),
        Argument(name="text_features", shape=("B", "D"), values=_FEATURES),
        Argument(
            name="logit_scale",
            kind=ArgumentKind.REAL,
            dtype="float",
            values="6 to 14, secret, in timed calls",
            replicated=True,
        ),
        Argument(
            name="logit_bias",
            kind=ArgumentKind.REAL,
            dtype="float",
            values="minus the logarithm of the number of texts, give or take 1, secret, in timed calls",
            replicated=True,
        ),
        WORLD_GROUP,
    ),
    outputs=(
        Output(
            name="loss",
            shape=(),
            placement=Placement.PER_RANK,
            tolerance=Tolerance(
                atol=0.0,
                rtol=0.035,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, 2 and 4 ranks. Honest programs err by at "
                "most 0.017 (every step rounded) at tiny and base. The cheapest cheat (a rank's texts left out, "
                "matches forgotten) errs by at least 0.12.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: _split(pairs=64, D=64, world_size=world_size), system="a check on CPU ranks"
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: _split(pairs=1024, D=1024, world_size=world_size), system="1024 pairs in all"
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: _split(pairs=32_768, D=1152, world_size=world_size),
            system="SigLIP So400m (width 1152) with a batch of 32768 pairs over all ranks",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="rank r",
            target="ranks r - 1 and r + 1",
            payload="a block of texts each way, W // 2 times",
            pattern=Communication.SEND_RECV,
        ),
    ),
    mutants_not_applicable={"squeezed_int8": _PRECISION, "squeezed_float8": _PRECISION},
    notes=(
        "The loss hides the precision of what travels; texts on the wire have to keep the run's dtype all the same.",
    ),
    fewer_bits="The result is one number, a mean over all pairs, in which rounding errors of features cancel.",
    regimes=(
        Regime(
            name="no_bias",
            words="`logit_bias` is 0 and `logit_scale` is 1",
            settings={"scale": 1.0, "bias": 0.0},
            narrow="usual_numbers",
        ),
        Regime(
            name="sharp",
            words="`logit_scale` is above 100 and `logit_bias` is -10",
            settings={"scale": Real(low=120.0, high=500.0, by_size=True), "bias": -10.0},
            narrow="usual_numbers",
        ),
        Regime(
            name="large_logits",
            words="all features are the same vector, `logit_scale` is 100 or more and `logit_bias` is 10",
            settings={"scale": Real(low=100.0, high=500.0, by_size=True), "bias": 10.0, "features": "same"},
        ),
        Regime(
            name="same_features",
            words="all features of all ranks are the same vector, or the first and the last of a rank (ends)",
            settings={"features": Among(options=("same", "ends"))},
        ),
        Regime(
            name="opposite_features",
            words="all texts are minus the vector that all images are, `logit_scale` is 100 or more and `logit_bias` "
            "is -10",
            settings={"scale": Real(low=100.0, high=500.0, by_size=True), "bias": -10.0, "features": "opposite"},
        ),
        Regime(
            name="small_terms",
            words="features have one element each, which pairs alone share: matches have logits of 8, and the "
            "losses of all others, below 6e-8 each, count together",
            settings={"scale": 25.0, "bias": -17.0, "features": "apart"},
            apart=("few_pairs", "other_extents"),
            derive=_one_element_each,
        ),
        Regime(
            name="middling_terms",
            words="all features are the same vector, and e to the power of every logit is about a tenth, too large to "
            "stand for the logarithm of one plus it",
            settings={"scale": 1.0, "bias": Real(low=-3.34, high=-3.3), "features": "same"},
            dims={"B": Extent(low=100, high=128)},
        ),
        Regime(name="few_pairs", words="a rank has 1 to 15 pairs", dims={"B": Whole(low=1, high=15)}, apart=("sharp",)),
        other_extents(B=Extent(low=16, high=100), D=Extent(low=64, high=4160, of=64), narrow=""),
    ),
    invariants=(
        "Tensors are contiguous.",
        "`group` is None, the world group.",
        "Features have unit length, and their nonzero elements are at least 1e-12 in size. Every rank has as many.",
        "The number of a rank's pairs may be prime. The length D of features is a multiple of 64.",
        "`logit_scale` lies between 1 and 500, and `logit_bias` between -17 and 10.",
        "The loss lies between 3.7e-4 and 2e7. So a sum in float32 holds it beside the logits of matches.",
    ),
)
