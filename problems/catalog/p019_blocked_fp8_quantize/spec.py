"""Blockwise FP8 quantisation + all-gather, described."""

from dataclasses import replace

from problems.spec.ranges import Among, Extent
from problems.spec.regimes import (
    HUGE_VALUES,
    ONE_RANK_HAS_VALUES,
    TINY_VALUES,
    ZERO_VALUES,
    other_extents,
    shortened,
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
    Size,
    SizeName,
    Tolerance,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

BLOCK = 128

_NO_OTHER_CODE = Tolerance(
    atol=1e-6,
    rtol=1e-6,
    calibration="no rounding error: quotients are exact, and neighbouring codes differ by a sixteenth at least",
)
_ONE_CODE = Tolerance(
    atol=1e-4, rtol=0.16, calibration="one code more or less, which would decide the rms where elements are few"
)


def _dims(world_size: int, *, rows: int, width: int, block: int = BLOCK) -> Dims:
    return {"M": rows, "WM": rows * world_size, "N": width, "NB": width // block, "block_size": block}


def _of_blocks(dims: Dims, world_size: int) -> Dims:
    return {**dims, "WM": dims["M"] * world_size, "N": dims["NB"] * dims["block_size"]}


def _of_some_blocks(dims: Dims, world_size: int) -> Dims:
    return _of_blocks(shortened(dims, 80_000, M=1, NB=1, block_size=20), world_size)


def _of_320_blocks(dims: Dims, world_size: int) -> Dims:
    return _of_blocks({**dims, "M": 320 // dims["NB"]}, world_size)


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """The share is read once, codes and scales of all ranks are written once; the others' arrive over the links."""
    elements = dims["M"] * dims["N"]
    coded = elements + 4 * dims["M"] * dims["NB"]
    received = (world_size - 1) * coded
    return Cost(
        flops={"fp32": 3 * elements},
        memory_bytes=element_bytes * elements + world_size * coded,
        wire_bytes=received,
        reference_wire_bytes=received,
    )


PROBLEM = Problem(
    number=19,
    slug="blocked_fp8_quantize",
    title="Blockwise FP8 quantisation + all-gather",
    summary="Rows are rounded to float8 e4m3 with one float32 scale per 128 elements; codes and scales of all ranks "
    "are gathered.",
    origin="DeepSeek-V3 (activations quantised in blocks of 1 x 128), with an all-gather of codes and scales",
    parallelism=(Parallelism.FSDP,),
    communication=(Communication.ALL_GATHER,),
    block=Block.QUANTIZATION,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.LLM,
    signature="solution(local_tensor: Tensor, block_size: int = 128) -> (Tensor[float8_e4m3fn], Tensor[float32])",
    arguments=(
        Argument(
            name="local_tensor",
            shape=("M", "N"),
            values="normal with a log-normal scale per element and a scale between 2^-10 and 2^6 per block; about 6 % "
            "of the blocks are zero; different on every rank",
        ),
        Argument(
            name="block_size",
            kind=ArgumentKind.INTEGER,
            dtype="int",
            values="128 in timed calls; at tiny 32",
            replicated=True,
        ),
    ),
    outputs=(
        Output(
            name="y",
            shape=("WM", "N"),
            dtype="float8_e4m3fn",
            placement=Placement.REPLICATED,
            tolerance=Tolerance(
                atol=1e-4,
                rtol=0.16,
                rms=0.0165,
                calibration="One code more or less is at most 12.5 % of a number, or 2^-9 among the subnormals, beside "
                "an rms of 70 or more. So the element-wise limits allow one code, not two. 2026-11-21, CPU, torch "
                "2.13, gloo, bfloat16, tiny, 2 and 4 ranks, 8 calls. Honest programs (reciprocals, quotients one unit "
                "too large) err by at most 0.0056 rms. The cheapest cheats (codes truncated or through e5m2) err by "
                "0.049 rms.",
            ),
        ),
        Output(
            name="s",
            shape=("WM", "NB"),
            dtype="float32",
            placement=Placement.REPLICATED,
            tolerance=Tolerance(
                atol=0.0,
                rtol=1e-6,
                calibration="2026-11-21, CPU, torch 2.13, tiny, 2 and 4 ranks, 8 calls. Honest programs err by at most "
                "1.2e-7 (two roundings of float32), scales sent in bfloat16 by 3.3e-3.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: _dims(world_size, rows=40, width=160, block=32), system="a check on CPU ranks"
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: _dims(world_size, rows=1024, width=1024), system="1024 rows of 1024 per rank"
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: _dims(world_size, rows=16_384, width=7168),
            system="activations of DeepSeek-V3 (hidden size 7168, blocks of 1 x 128) for four sequences of 4096 tokens "
            "per rank",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="every rank",
            target="every rank",
            payload="its codes, one byte per element, and a float32 scale per block",
            pattern=Communication.ALL_GATHER,
        ),
    ),
    regimes=(
        replace(TINY_VALUES, words="all values are below 1e-3 in size", narrow=""),
        Regime(
            name="smallest_values",
            words="all values are below 1e-23 in size, and scales below 1e-25",
            settings={"scale": 2.0**-90},
            apart=("tiny_values", "huge_values"),
            dtypes=("bfloat16", "float32"),
        ),
        replace(HUGE_VALUES, narrow=""),
        Regime(
            name="largest_values",
            words="values are around 1e20, and scales around 1e18",
            settings={"scale": 2.0**68},
            apart=("tiny_values", "huge_values"),
            dtypes=("bfloat16", "float32"),
        ),
        ZERO_VALUES,
        ONE_RANK_HAS_VALUES,
        Regime(
            name="halves",
            words="scales are powers of two, and all values but the largest of a block lie half-way between two codes",
            settings={"halves": True},
            tolerances={"y": _NO_OTHER_CODE},
        ),
        Regime(
            name="other_block_size",
            words="block_size is 20, less than a warp and no power of two, and a rank has 320 blocks",
            dims={"NB": Among(options=("4", "8", "16")), "block_size": 20},
            derive=_of_320_blocks,
        ),
        Regime(
            name="whole_rows",
            words="block_size is 1500, no power of two, and a row is one block",
            dims={"N": 1500, "NB": 1, "block_size": 1500},
        ),
        replace(
            other_extents(
                derive=_of_some_blocks,
                M=Extent(low=1, high=300),
                NB=Extent(low=1, high=140),
                block_size=Extent(low=20, high=1499),
            ),
            words="tensors have other extents than usual; where edges are zero, so are the first and last rows, and "
            "the first three elements and the last of each block, and in half of the blocks all but two that cancel; "
            "where they are large, the last one is its largest",
            settings={"edges": Among(options=("usual", "zero", "large"))},
            tolerances={"y": _ONE_CODE},
            apart=("halves",),
        ),
    ),
    invariants=(
        "Tensors are contiguous, and those of all ranks have equal shapes.",
        "Values are finite, and the largest magnitude of a block is zero or between 1e-35 and 1e25.",
        "`block_size` divides `N` and lies between 20 and 1500. It need be no power of two.",
        "`M` may be odd.",
    ),
)
