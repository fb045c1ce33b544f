"""LayerNorm weight and bias gradients with all-reduce, described."""

from dataclasses import replace

from problems.spec.ranges import Among, Extent
from problems.spec.regimes import (
    SUMMED_VALUES,
    beyond_16_bits,
    exact_sums,
    long_extent,
    of_tensor,
    other_extents,
    shortened,
    to_the_ends,
)
from problems.spec.schema import (
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
    Tolerance,
    fixed,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Both matrices are read once, one product and two sums per element; two vectors are shared by all ranks."""
    rows, columns = dims["M"], dims["N"]
    sums = 2 * (world_size - 1) / world_size * 2 * columns * element_bytes
    return Cost(
        flops={"fp32": 3 * rows * columns},
        memory_bytes=element_bytes * (2 * rows * columns + 2 * columns),
        wire_bytes=sums,
        reference_wire_bytes=sums,
        note="Two vectors of N elements: the wire matters by its latency, after a pass over both matrices.",
    )


_TOLERANCE = Tolerance(
    atol=0.1,
    rtol=0.1,
    rms=0.0095,
    calibration="2026-11-21, torch 2.13 CPU, gloo, bfloat16. At base, 4 ranks, 3 calls. Honest programs (bfloat16 "
    "ring, backwards, blocks of rows; float32) err by at most 0.021 and 0.0038 rms. The cheapest cheat (sums sent in 8 "
    "bits, one scale per vector) errs by at least 0.056 and 0.0238 rms. At tiny, 2 to 8 ranks, 6 calls: honest 0.029 "
    "and 0.0055 rms, the cheat 0.035 and 0.0166 rms. The first bound leaves room for the more columns of large; the "
    "rms decides.",
)


def _of_some(dims: Dims, _world_size: int) -> Dims:
    return shortened(dims, 400_000, M=1, N=32)


_OF_FEW_COLUMNS = replace(
    _TOLERANCE,
    atol=0.3,
    rtol=0.3,
    rms=0.06,
    calibration="where one of few columns cancels, it decides the error's root mean square; rows beyond 65,536 count "
    "for a seventh of a sum",
)

PROBLEM = Problem(
    number=9,
    slug="layernorm_backward",
    title="LayerNorm weight and bias gradients with all-reduce",
    summary="Column sums that give the gradients of LayerNorm's scale and shift, added over all ranks' tokens.",
    origin=None,
    parallelism=(Parallelism.DATA,),
    communication=(Communication.ALL_REDUCE,),
    block=Block.NORM,
    stage=(Stage.TRAINING,),
    domain=Domain.LLM,
    signature="solution(X_hat: Tensor, dY: Tensor) -> (Tensor, Tensor)",
    arguments=(
        Argument(
            name="X_hat",
            shape=("M", "N"),
            values="normal rows, each normalised to mean 0 and variance 1; new on every rank and call",
        ),
        Argument(
            name="dY",
            shape=("M", "N"),
            values="normal, times a log-normal scale per column (the same on all ranks) and a scale of the rank's own "
            "between 1/2 and 2; new on every rank and call",
        ),
    ),
    outputs=(
        Output(name="d_gamma", shape=("N",), placement=Placement.REPLICATED, tolerance=_TOLERANCE),
        Output(name="d_beta", shape=("N",), placement=Placement.REPLICATED, tolerance=_TOLERANCE),
    ),
    sizes={
        SizeName.TINY: Size(dims=fixed(M=40, N=1024), system="a check on CPU ranks"),
        SizeName.BASE: Size(dims=fixed(M=1024, N=1024), system="1024 tokens per rank, hidden size 1024"),
        SizeName.LARGE: Size(
            dims=fixed(M=16_384, N=12_288),
            system="GPT-3 175B (hidden size 12288, sequences of 2048 tokens), data parallel: one layer norm for a "
            "micro-batch of 8 sequences per rank",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="every rank",
            target="every rank",
            payload="two vectors of N column sums, added up",
            pattern=Communication.ALL_REDUCE,
        ),
    ),
    regimes=(
        *to_the_ends("2e-9", "9e11", *of_tensor("dY", *SUMMED_VALUES)),
        Regime(
            name="uneven_rows",
            words="rows of X_hat are zero, as of equal elements, or begin with a zero and have most variance in one "
            "element, and rows of dY may begin with zeros; where rows are steep, dY is far smaller in all others",
            settings={"rows": Among(options=("uneven", "steep"))},
            apart=("exact_sums",),
        ),
        replace(
            exact_sums("d_gamma", "d_beta"),
            words="X_hat is 1 or -1, dY has one row per rank that is not zero, and all partial sums over ranks are "
            "bfloat16 numbers, so that the sums have no rounding error",
        ),
        replace(
            other_extents(derive=_of_some, M=Extent(high=1040), N=Extent(low=32, high=2999)),
            tolerances=dict.fromkeys(("d_gamma", "d_beta"), _OF_FEW_COLUMNS),
        ),
        long_extent("long_rows", M=Extent(high=9), N=Extent(low=3000, high=70_000)),
        replace(
            beyond_16_bits("many_rows", M=Extent(low=67_000, high=70_000), N=32),
            words="there are more rows than 16 bits can number, and the last ones of dY are the largest",
            settings={"rows": "growing"},
            tolerances=dict.fromkeys(("d_gamma", "d_beta"), _OF_FEW_COLUMNS),
        ),
    ),
    invariants=(
        "Tensors are contiguous and in bfloat16.",
        "Values are finite, and the largest one of `dY` on a rank is zero or between 1.9e-9 and 9.1e11 in size.",
        "Rows of `X_hat` are zero or have a mean square of about 1.",
        "M and N may be odd or prime, and are the same on all ranks.",
        "No tensor has 2^30 elements or more.",
    ),
)
