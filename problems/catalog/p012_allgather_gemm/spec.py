"""All-gather of K-sharded A + GEMM, described."""

from problems.families.zero_edges_spec import other_products
from problems.spec.axes import rows
from problems.spec.ranges import Among, Extent
from problems.spec.regimes import exact_products, further, long_extent, of_product
from problems.spec.schema import Argument, Cost, Dims, Hop, Output, Placement, Problem, Size, SizeName, Tolerance
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage
from problems.spec.world_sizes import divisors_of

K_BASE = 512
HIDDEN = 8192
GATE_AND_UP = 2 * 28_672
"""Hidden size, and columns of the gate and up projections together, of Llama 3.1 70B (its published configuration)."""


def dims(world_size: int, *, rows: int, inner: int, columns: int) -> Dims:
    """The dimensions for a contraction of `inner` that is split evenly over the ranks."""
    return {"M": rows, "K": inner, "K_local": inner // world_size, "N": columns}


def _split(dims: Dims, world_size: int) -> Dims:
    return {**dims, "K_local": dims["K"] // world_size}


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """One whole product per rank; the shard, B and the result move once between memory and chip."""
    rows, columns, inner, shard = dims["M"], dims["N"], dims["K"], dims["K_local"]
    received = (world_size - 1) * rows * shard * element_bytes
    return Cost(
        flops={"matmul": 2 * rows * columns * inner},
        memory_bytes=element_bytes * (rows * shard + inner * columns + rows * columns),
        wire_bytes=received,
        reference_wire_bytes=received,
        note="Every rank needs W - 1 shards that it does not hold.",
    )


PROBLEM = Problem(
    number=12,
    slug="allgather_gemm",
    title="All-gather of K-sharded A + GEMM",
    summary="Every rank gathers a left matrix that is split along the contraction and multiplies it by its own right "
    "matrix.",
    origin=None,
    parallelism=(Parallelism.TENSOR,),
    communication=(Communication.ALL_GATHER,),
    block=Block.MLP,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.LLM,
    signature="solution(A_local: Tensor, B: Tensor) -> Tensor",
    arguments=(
        Argument(
            name="A_local",
            shape=("M", "K_local"),
            values="normal with a log-normal scale per element; new on every rank and call",
        ),
        Argument(name="B", shape=("K", "N"), values="standard normal; new on every rank and call"),
    ),
    outputs=(
        Output(
            name="C",
            shape=("M", "N"),
            placement=Placement.PER_RANK,
            tolerance=Tolerance(
                atol=0.04,
                rtol=0.04,
                rms=0.0055,
                calibration="2026-11-21, torch 2.13 CPU, gloo, bfloat16. At tiny, 2 and 4 ranks, 10 calls. Honest "
                "programs (at once, by shard, by rows; float32) err by at most 0.0033 and 0.0019 rms. The cheapest "
                "cheat (float8 shards, one scale per row) errs by at least 0.062 and 0.0162 rms. At base, 4 ranks, 2 "
                "calls: honest 0.0037 and 0.0017 rms, the cheat 0.148 and 0.0261 rms. 2026-11-26, 8 "
                "ranks, rounded once per shard: at most 0.022 and 0.0040 rms, at base 0.030 and 0.0036.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: dims(world_size, rows=32, inner=64, columns=96), system="a check on CPU ranks"
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: dims(world_size, rows=1024, inner=K_BASE, columns=1024), system="the card's size"
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: dims(world_size, rows=8192, inner=HIDDEN, columns=GATE_AND_UP // world_size),
            system="Llama 3.1 70B (hidden size 8192, MLP 28672), tensor-parallel prefill of 8192 tokens whose hidden "
            "elements are split over the ranks: gate and up projection of one MLP",
        ),
    },
    cost=cost,
    refuses_world_size=divisors_of(K_BASE),
    world_size_rule=f"a divisor of {K_BASE}",
    hops=(
        Hop(
            source="rank r",
            target="every other rank",
            payload="its columns of A: M x K/W elements",
            pattern=Communication.ALL_GATHER,
        ),
    ),
    regimes=(
        *further(24, *of_product("A_local", "B")),
        exact_products(
            "C", words="every column of B picks one column of A, whose values are of all sizes", magnitudes="spread"
        ),
        other_products(
            derive=_split,
            M=Extent(low=16, high=336, of=16),
            K=Extent(low=64, high=448, of=64),
            N=Among(options=("32", "64", "128", "160", "224", "288", "416", "544")),
        ),
        long_extent(
            "tall_products",
            derive=_split,
            M=Extent(low=1040, high=2640, of=16),
            K=64,
            N=Extent(low=160, high=320, of=32),
        ),
    ),
    invariants=(
        "Tensors are contiguous and in bfloat16.",
        "Values are finite. The largest of a matrix is zero or between 1e-15 and 1e18 in size.",
        "Where every column of `B` is a single 1 and zeros, the largest of `A_local` may lie between 1e-30 and 1e32.",
        "No partial sum of products exceeds 1e33 in size.",
        "M is a multiple of 16, N of 32 and K of 64, and K/W is a multiple of 8.",
        "Extents are the same on all ranks.",
    ),
    axes=(rows("K = 512 and N = 1024 (64 and 96 on CPU ranks)"),),
)
