"""RMSNorm over a hidden dimension that is sharded across ranks, described."""

from dataclasses import replace

from problems.spec.ranges import Among, Extent, Real
from problems.spec.regimes import (
    HUGE_VALUES,
    MANY,
    ONE_RANK_HAS_VALUES,
    TINY_VALUES,
    ZERO_VALUES,
    beyond_16_bits,
    long_extent,
    of_tensor,
    other_extents,
    shortened,
    to_the_ends,
)
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
    Scope,
    Size,
    SizeName,
    Tolerance,
    fixed,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """The shard is read and written once; one float32 sum per row has to be shared by all ranks."""
    rows, hidden = dims["M"], dims["N"]
    statistics = 2 * (world_size - 1) / world_size * 4 * rows
    return Cost(
        flops={"fp32": 4 * rows * hidden},
        memory_bytes=element_bytes * (2 * rows * hidden + hidden),
        wire_bytes=statistics,
        reference_wire_bytes=statistics,
        note="The statistics are small: the wire matters by its latency, between two passes over the shard.",
    )


def _of_some(dims: Dims, _world_size: int) -> Dims:
    return shortened(dims, 400_000, M=1, N=32)


PROBLEM = Problem(
    number=18,
    slug="tp_rms_norm",
    title="RMSNorm over a hidden dimension sharded across ranks",
    summary="Local sums of squares are all-reduced, then every rank normalises its shard of the hidden dimension.",
    origin="Hugging Face Transformers RMSNorm (LLaMA family), tensor parallel as in vLLM",
    parallelism=(Parallelism.TENSOR,),
    communication=(Communication.ALL_REDUCE,),
    block=Block.NORM,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.LLM,
    signature="solution(local_hidden_states: Tensor, local_weight: Tensor, variance_epsilon: float) -> Tensor",
    arguments=(
        Argument(
            name="local_hidden_states",
            shape=("M", "N"),
            values="normal; every row has a scale between 2^-11 and 2^3, and every rank scales each row by its own "
            "factor between 1/4 and 4",
        ),
        Argument(name="local_weight", shape=("N",), values="standard normal, different on every rank"),
        Argument(name="variance_epsilon", kind=ArgumentKind.REAL, dtype="float", values="1e-5"),
    ),
    outputs=(
        Output(
            name="out",
            shape=("M", "N"),
            placement=Placement.SHARDED,
            sharding="rank r holds hidden elements r*N to (r+1)*N - 1",
            tolerance=Tolerance(
                atol=0.0125,
                rtol=0.0125,
                rms=0.0063,
                scope=Scope.ROW,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, 2 and 4 ranks. At tiny, honest programs (one "
                "or two roundings, sums in float32 or float64) err by at most 0.0055 and 0.0025 rms. The cheapest "
                "cheat (statistics in 8 bits) errs by at least 0.029 and 0.016 rms. At base, 4 ranks: honest 0.006 and "
                "0.0024 rms.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=fixed(M=96, N=64), system="a check on CPU ranks"),
        SizeName.BASE: Size(dims=fixed(M=1024, N=1024), system="1024 tokens, 1024 hidden elements per rank"),
        SizeName.LARGE: Size(
            dims=lambda world_size: {"M": 131_072, "N": 16_384 // world_size},
            system="Llama 3.1 405B (hidden size 16384) prefilling its whole context of 131072 tokens",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="every rank",
            target="every rank",
            payload="one float32 sum of squares per row",
            pattern=Communication.ALL_REDUCE,
        ),
    ),
    mutants_not_applicable=dict.fromkeys(
        ("squeezed_int8", "squeezed_float8"),
        "a row of the payload is one number, which an 8-bit format with a scale of its own carries exactly",
    ),
    regimes=(
        Regime(
            name="large_epsilon",
            words="variance_epsilon is large",
            settings={"epsilon": Real(low=1e-3, high=1.0, by_size=True)},
            narrow="usual_numbers",
        ),
        Regime(
            name="small_epsilon",
            words="variance_epsilon is small, and rows are around its root",
            settings={"epsilon": Real(low=1e-12, high=1e-6, by_size=True)},
            narrow="usual_numbers",
        ),
        *to_the_ends(
            "1e-25",
            "1e10",
            *of_tensor("local_hidden_states and local_weight", replace(TINY_VALUES, narrow=""), HUGE_VALUES),
        ),
        *of_tensor(
            "local_hidden_states",
            ZERO_VALUES,
            # Zeros are right on the other ranks.
            replace(ONE_RANK_HAS_VALUES, narrow="divides_by_the_largest"),
        ),
        replace(
            other_extents(derive=_of_some, M=Extent(low=1, high=2080), N=Extent(low=32, high=2999)),
            words="tensors have other extents than usual; where edges are plain, the first and last rows and the first "
            "8 elements of all rows are zero, and the first and last weights are 1",
            settings={"edges": Among(options=("usual", "plain"))},
        ),
        long_extent("long_rows", M=Extent(low=1, high=9), N=Extent(low=3000, high=16_384), narrow=""),
        beyond_16_bits("many_rows", M=MANY, N=32),
    ),
    invariants=(
        "Tensors are contiguous, and those of all ranks have equal shapes.",
        "`M` and `N` may be odd.",
        "Values are finite. The largest hidden state of a row is zero or between 1e-31 and 1.1e10 in size.",
        "The largest weight of a rank is zero or between 5e-8 and 1e8 in size.",
        "`variance_epsilon` lies between 1e-12 and 1, and is the same on all ranks.",
    ),
)
