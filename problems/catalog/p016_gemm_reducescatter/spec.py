"""GEMM + reduce-scatter along rows, described."""

from math import gcd

from problems.families.zero_edges_spec import other_products
from problems.spec.axes import rows
from problems.spec.ranges import Extent
from problems.spec.regimes import exact_sums, long_extent, of_product, to_the_ends
from problems.spec.schema import Argument, Cost, Dims, Hop, Output, Placement, Problem, Size, SizeName, Tolerance
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage
from problems.spec.world_sizes import divisors_of

K_BASE = 512
HIDDEN = 8192
"""Hidden size of Llama 3.1 70B (its published configuration); its 64 heads of 128 are as wide."""


def dims(world_size: int, *, rows: int, inner: int, columns: int) -> Dims:
    """The dimensions for a contraction of `inner` and result rows that are both split evenly."""
    return {"M": rows, "K_local": inner // world_size, "N": columns, "M_local": rows // world_size}


def _split(dims: Dims, world_size: int) -> Dims:
    return {**dims, "M_local": dims["M"] // world_size}


def _whole_split(dims: Dims, world_size: int) -> Dims:
    """The same with the least K/W from the drawn one on that makes K a multiple of 128, and M/W of at least 2."""
    step = 128 // gcd(128, world_size)
    inner, rows = -(-dims["K_local"] // step) * step, max(dims["M"], 2 * world_size)
    return {**dims, "M": rows, "K_local": inner, "M_local": rows // world_size}


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """As many operations as a product of full size per rank, wherever they are done.

    Partial products need not be what travels: p ranks can share a longer part of the contraction, each of them for 1/p
    of the rows. Then (p - 1)/p of the operands have to arrive, and partial rows of W/p ranks are summed.
    """
    rows, inner, columns, own = dims["M"], dims["K_local"], dims["N"], dims["M_local"]
    ways = (p for p in range(1, world_size + 1) if world_size % p == 0)
    received = min((1 - 1 / p) * inner * (rows + p * columns) + (1 - p / world_size) * rows / p * columns for p in ways)
    return Cost(
        flops={"matmul": 2 * rows * columns * inner},
        memory_bytes=element_bytes * (rows * inner + inner * columns + own * columns),
        wire_bytes=received * element_bytes,
        reference_wire_bytes=(world_size - 1) * own * columns * element_bytes,
        note="Where the contraction is short, operands may travel in place of partial products, or some of both. "
        "Assumes no reduction inside the network, and partial products in the run's dtype.",
    )


PROBLEM = Problem(
    number=16,
    slug="gemm_reducescatter",
    title="GEMM + reduce-scatter along rows",
    summary="Every rank multiplies its slice of the contraction; the products are summed and each rank keeps one "
    "block of rows.",
    origin=None,
    parallelism=(Parallelism.TENSOR, Parallelism.SEQUENCE),
    communication=(Communication.REDUCE_SCATTER,),
    block=Block.MLP,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.LLM,
    signature="solution(A_local: Tensor, B_local: Tensor) -> Tensor",
    arguments=(
        Argument(
            name="A_local",
            shape=("M", "K_local"),
            values="normal, times a scale of the rank's own between 1/2 and 2; new on every rank and call",
        ),
        Argument(
            name="B_local",
            shape=("K_local", "N"),
            values="normal, times a log-normal scale per column; new on every rank and call",
        ),
    ),
    outputs=(
        Output(
            name="C_local",
            shape=("M_local", "N"),
            placement=Placement.SHARDED,
            sharding="rank r holds rows r*M_local to (r+1)*M_local - 1 of the sum",
            tolerance=Tolerance(
                atol=0.12,
                rtol=0.12,
                rms=0.009,
                calibration="2026-11-21, torch 2.13 CPU, gloo, bfloat16. At base, 4 ranks, 2 calls. Honest programs "
                "(bfloat16 ring, backwards, blocks; float32) err by at most 0.041 and 0.0031 rms. The cheapest cheat "
                "(8-bit payload, one scale per row) errs by at least 0.160 and 0.0226 rms. At tiny, 2 to 8 ranks, 10 "
                "calls: honest 0.027 and 0.0056 rms, the cheat 0.049 and 0.0155 rms. The first bound leaves room for "
                "the columns of large; the rms decides.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: dims(world_size, rows=64, inner=128, columns=256), system="a check on CPU ranks"
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: dims(world_size, rows=1024, inner=K_BASE, columns=1024), system="the card's size"
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: dims(world_size, rows=16_384, inner=HIDDEN, columns=HIDDEN),
            system="Llama 3.1 70B (hidden size 8192, 64 heads of 128), tensor-parallel prefill of 16384 tokens with "
            "sequence parallelism: the output projection of one layer's attention",
        ),
    },
    cost=cost,
    refuses_world_size=divisors_of(K_BASE),
    world_size_rule=f"a divisor of {K_BASE} that divides M",
    hops=(
        Hop(
            source="every rank",
            target="rank r",
            payload="row block r of its partial product, added up on the way or on arrival",
            pattern=Communication.REDUCE_SCATTER,
        ),
    ),
    regimes=(
        *to_the_ends("2e-9", "9e11", *of_product("A_local", "B_local")),
        exact_sums("C_local"),
        other_products(
            derive=_whole_split,
            M=Extent(low=16, high=336, of=16),
            K_local=Extent(low=16, high=400, of=16),
            N=Extent(low=256, high=1536, of=256),
        ),
        long_extent(
            "tall_products",
            derive=_whole_split,
            M=Extent(low=1040, high=2640, of=16),
            K_local=64,
            N=256,
        ),
    ),
    invariants=(
        "Tensors are contiguous and in bfloat16.",
        "Values are finite, and the largest one of a matrix is zero or between 5e-10 and 9.1e11 in size.",
        "M is a multiple of 16, N of 256 and K of 128.",
        "W divides M and K: M/W is at least 2, and K/W a multiple of 16.",
        "Extents are the same on all ranks.",
    ),
    axes=(rows("a contraction of 512 over all ranks and N = 1024 (128 and 256 on CPU ranks)", split="M_local"),),
)
