"""Reduce-scatter (mean) followed by RMSNorm, described."""

from dataclasses import replace

from problems.spec.ranges import Extent, Real, Whole
from problems.spec.regimes import MANY, SUMMED_VALUES, beyond_16_bits, exact_sums, long_extent, of_tensor, other_extents
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
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

M_BASE, N_BASE = 1024, 1024


def dims(world_size: int, *, rows: int, hidden: int) -> Dims:
    """The dimensions for `rows` rows per rank after the reduction."""
    chunk = rows * hidden
    return {"rows": rows, "hidden": hidden, "chunk": chunk, "elements": world_size * chunk}


def chunks(given: Dims, world_size: int) -> Dims:
    """The dimensions for rows and a hidden size that are set."""
    return dims(world_size, rows=given["rows"], hidden=given["hidden"])


def _of_all_rows(given: Dims, world_size: int) -> Dims:
    """As `chunks`, for the rows of all ranks."""
    return chunks({**given, "rows": -(-given["rows"] // world_size)}, world_size)


def base(world_size: int) -> Dims:
    """The card's sizes at M = N = 1024."""
    rows = max(2, max(M_BASE, world_size) // max(world_size, 4))
    return dims(world_size, rows=rows, hidden=max(32, min(N_BASE, 128)))


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """All W chunks are read, one is reduced, normalised and written; W - 1 partial chunks have to arrive."""
    chunk = dims["chunk"]
    received = (world_size - 1) * chunk * element_bytes
    return Cost(
        flops={"fp32": (world_size - 1 + 6) * chunk},
        memory_bytes=element_bytes * (world_size * chunk + dims["hidden"] + chunk),
        wire_bytes=received,
        reference_wire_bytes=received,
        note="Assumes no reduction inside the network.",
    )


PROBLEM = Problem(
    number=45,
    slug="reducescatter_fused_rmsnorm",
    title="Reduce-scatter (mean) followed by RMSNorm",
    summary="Averages an activation over the ranks, keeps the rank's chunk and applies RMSNorm to its rows.",
    origin=None,
    parallelism=(Parallelism.TENSOR, Parallelism.SEQUENCE),
    communication=(Communication.REDUCE_SCATTER,),
    block=Block.NORM,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.LLM,
    signature="solution(rs_input_1d: Tensor, gamma: Tensor, eps: float) -> Tensor",
    arguments=(
        Argument(
            name="rs_input_1d",
            shape=("elements",),
            values="normal with a log-normal scale per element, a scale per row between 2^-11 and 2^3 that all ranks "
            "share, and a scale of the rank's own between 1/2 and 2; new on every rank and call",
        ),
        Argument(name="gamma", shape=("hidden",), values="standard normal; new on every call", replicated=True),
        Argument(name="eps", kind=ArgumentKind.REAL, dtype="float", values="1e-5"),
    ),
    outputs=(
        Output(
            name="out",
            shape=("rows", "hidden"),
            placement=Placement.SHARDED,
            sharding="rank r holds rows r*rows to (r+1)*rows - 1 of all W*rows",
            tolerance=Tolerance(
                atol=0.12,
                rtol=0.12,
                rms=0.0083,
                scope=Scope.ROW,
                calibration="2026-11-21, torch 2.13 CPU, gloo, bfloat16. At base, 4 ranks, 3 calls. Honest programs "
                "(bfloat16 ring, backwards; float32) err by at most 0.022 and 0.0032 rms. The cheapest cheat (8-bit "
                "floats, one scale per row) errs by at least 0.174 and 0.0209 rms. At tiny, 2 to 8 ranks, 6 calls: "
                "honest 0.023 and 0.0043 rms, the cheat 0.064 and 0.0184 rms. The first bound leaves room for the "
                "longer rows of large; the rms decides.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: dims(world_size, rows=24, hidden=64), system="a check on CPU ranks"
        ),
        SizeName.BASE: Size(
            dims=base, system="the card's size: rows of 128 elements, 256 KiB of input on 4 or 8 ranks"
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: dims(world_size, rows=16_384 // world_size, hidden=8192),
            system="Llama 3.1 70B (hidden size 8192), tensor-parallel prefill of 16384 tokens with sequence "
            "parallelism: from one block's output to the next block's norm",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="every rank",
            target="rank r",
            payload="chunk r, added up on the way or on arrival",
            pattern=Communication.REDUCE_SCATTER,
        ),
    ),
    regimes=(
        Regime(
            name="large_epsilon",
            words="eps is larger",
            settings={"epsilon": Real(low=1e-4, high=1.0, often=(0.1,), by_size=True)},
            narrow="usual_numbers",
        ),
        Regime(
            name="small_epsilon",
            words="eps is smaller",
            settings={"epsilon": Real(low=1e-12, high=1e-6, often=(1e-8,), by_size=True)},
            narrow="usual_numbers",
        ),
        Regime(
            name="huge_gamma",
            words="gamma is around ten million, beyond the range of float16",
            settings={"gamma": "huge"},
            dtypes=("bfloat16", "float32"),
        ),
        other_extents(rows=Extent(low=9, high=80), hidden=Extent(low=24, high=4096), derive=chunks),
        long_extent("long_rows", rows=Whole(low=1, high=2), hidden=Extent(low=1025, high=12_000), derive=chunks),
        replace(
            beyond_16_bits("many_rows", rows=MANY, hidden=24, derive=_of_all_rows),
            words="all ranks together have more than 65,536 rows, more than 16 bits can number",
        ),
        Regime(
            name="zero_rows",
            words="the first row of each rank and every third of all are zero on all ranks",
            settings={"rows": "zero"},
        ),
        *of_tensor("rs_input_1d", *SUMMED_VALUES),
        exact_sums(
            "out",
            tolerance=Tolerance(
                atol=0.02,
                rtol=0.02,
                rms=0.003,
                calibration="2026-11-22, CPU, torch 2.13, gloo, bfloat16, tiny, 2 and 4 ranks, 10 calls: only the norm "
                "is rounded. Honest programs err by at most 0.0019 rms, a wire of 10 bits by at least 0.0038.",
            ),
        ),
    ),
    invariants=(
        "Tensors are contiguous and in bfloat16.",
        "Neither extent need be a multiple of anything; both are the same on all ranks.",
        "Values are at most 1e11 in size, and nonzero ones at least 1e-21.",
        "Those of `gamma` are at most 1e8 in size, and zero or at least 1e-8.",
        "`eps` lies between 1e-12 and 1.",
    ),
)
