"""Blockwise dequantisation + all-to-all, described."""

from dataclasses import replace

from problems.spec.ranges import Among, Extent
from problems.spec.regimes import (
    HUGE_VALUES,
    ONE_RANK_HAS_VALUES,
    SPECIAL_VALUES,
    TINY_VALUES,
    ZERO_VALUES,
    of_tensor,
    other_extents,
    shortened,
)
from problems.spec.schema import (
    EXACT,
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
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage


def _dims(world_size: int, *, rows: int, width: int) -> Dims:
    return {"W": world_size, "M": rows, "N": width, "NB": rows * width // 128, "block_size": 128}


def _large(world_size: int) -> Dims:
    return _dims(world_size, rows=32_768 // world_size, width=7168)


_ELEMENTS, _MOST_BLOCKS, _LARGEST_BLOCK = 26_000, 24, 2000


def _in_blocks(dims: Dims, world_size: int) -> Dims:
    """A chunk in as many equal blocks as can be, at most `_MOST_BLOCKS`; they run across rows where they may.

    Where such blocks would be too large, there are a few more of them.
    """
    del world_size
    short = shortened(dims, _ELEMENTS, M=1, N=1)
    elements = short["M"] * short["N"]
    least = -(-elements // _LARGEST_BLOCK)
    counts = [count for count in range(least, elements + 1) if elements % count == 0]
    blocks = max((count for count in counts if count <= _MOST_BLOCKS), default=counts[0])
    return {**short, "NB": blocks, "block_size": elements // blocks}


def _of_1152(dims: Dims, world_size: int) -> Dims:
    del world_size
    return {**dims, "N": 1152 // dims["M"], "NB": 1152 // dims["block_size"]}


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Values and scales are read once, float32 results written once.

    On the wire either results travel, or values and scales, whichever are fewer bytes; the reference sends results.
    """
    chunk, scales = dims["M"] * dims["N"], dims["NB"]
    coded = element_bytes * (chunk + scales)
    return Cost(
        flops={"fp32": world_size * chunk},
        memory_bytes=world_size * (coded + 4 * chunk),
        wire_bytes=(world_size - 1) * min(4 * chunk, coded),
        reference_wire_bytes=(world_size - 1) * 4 * chunk,
        note="Scaling on arrival sends values and scales in the run's dtype; the reference scales first and sends "
        "float32.",
    )


PROBLEM = Problem(
    number=20,
    slug="blocked_fp8_dequantize",
    title="Blockwise dequantisation + all-to-all",
    summary="Blocks of 128 values are multiplied by their scales into float32 and exchanged in equal chunks between "
    "all ranks.",
    origin="DeepSeek-V3 (scales for blocks of 128 elements), with an all-to-all as in expert-parallel dispatch",
    parallelism=(Parallelism.EXPERT,),
    communication=(Communication.ALL_TO_ALL,),
    block=Block.QUANTIZATION,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.LLM,
    signature="solution(local_y: Tensor, local_s: Tensor, block_size: int = 128) -> Tensor[float32]",
    arguments=(
        Argument(name="local_y", shape=("W", "M", "N"), values="standard normal, different on every rank"),
        Argument(
            name="local_s",
            shape=("W", "NB"),
            values="normal times 2^-5 to 2^5, of either sign, different on every rank",
        ),
        Argument(
            name="block_size", kind=ArgumentKind.INTEGER, dtype="int", values="128 in timed calls", replicated=True
        ),
    ),
    outputs=(
        Output(
            name="out",
            shape=("W", "M", "N"),
            dtype="float32",
            placement=Placement.PER_RANK,
            tolerance=EXACT,
        ),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: _dims(world_size, rows=16, width=72),
            system="a check on CPU ranks; blocks run across rows",
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: _dims(world_size, rows=1024, width=1024), system="2 MiB of values per pair of ranks"
        ),
        SizeName.LARGE: Size(
            dims=_large,
            system="DeepSeek-V3 (hidden size 7168, 8 routed experts per token, blocks of 128), expert-parallel "
            "dispatch of 4096 tokens per rank: 32768 rows, in equal shares",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="rank r",
            target="rank d",
            payload="chunk d: M x N scaled values, or values with their scales",
            pattern=Communication.ALL_TO_ALL,
        ),
    ),
    notes=(
        "Values and scales are in the run's dtype, not in 8 bits: scaling on arrival halves the traffic of bfloat16.",
    ),
    regimes=(
        *of_tensor(
            "local_y",
            SPECIAL_VALUES,
            ZERO_VALUES,
            ONE_RANK_HAS_VALUES,
            replace(HUGE_VALUES, narrow=""),
            replace(TINY_VALUES, narrow=""),
        ),
        Regime(
            name="spread_scales",
            words="a quarter of the scales are zero, and the others are of all sizes from 1e-20 to 1e20",
            settings={"scales": "spread"},
        ),
        Regime(
            name="other_block_size",
            words="block_size is 1 to 36, a chunk has 1152 elements, and every other block begins with zeros",
            settings={"beginnings": "zero"},
            dims={
                "M": Among(options=("8", "16", "32", "64")),
                "block_size": Among(options=("1", "3", "8", "12", "36")),
            },
            derive=_of_1152,
        ),
        Regime(
            name="one_block",
            words="block_size is 1152, and a chunk is one block",
            dims={"M": 16, "N": 72, "NB": 1, "block_size": 1152},
        ),
        replace(
            other_extents(derive=_in_blocks, M=Extent(low=1, high=300), N=Extent(low=1, high=2999)),
            words="tensors have other extents than usual, and the first and last scale of each chunk may be 1",
            settings={"end_scales": Among(options=("usual", "one"))},
        ),
    ),
    invariants=(
        "Tensors are contiguous, and those of all ranks have equal shapes.",
        "Scales are zero or between 1e-28 and 1e22 in size; they may be negative.",
        "Values may be NaN, infinite or subnormal; one NaN is as good as another.",
        "Other values are zero or between 1e-16 and 1e8 in size.",
        "The largest finite product of a value and its scale is zero or between 1e-32 and 1e30.",
        "`M` and `N` may be odd.",
        "`block_size` divides M x N; it may be 1 or odd, and it is at most 2000.",
    ),
)
