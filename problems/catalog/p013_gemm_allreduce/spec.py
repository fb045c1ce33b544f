"""GEMM + all-reduce, described."""

from problems.families.zero_edges_spec import other_products
from problems.spec.axes import rows
from problems.spec.ranges import Extent
from problems.spec.regimes import exact_sums, long_extent, of_product, to_the_ends
from problems.spec.schema import Argument, Cost, Dims, Hop, Output, Placement, Problem, Size, SizeName, Tolerance, fixed
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage
from problems.spec.world_sizes import divisors_of

HIDDEN = 8192
INTERMEDIATE = 28672
"""Hidden and intermediate size of Llama 3.1 70B (its published configuration)."""


def large(world_size: int) -> Dims:
    """The down projection of an MLP, its contraction split over the ranks."""
    return {"M": 8192, "N": HIDDEN, "K": INTERMEDIATE // world_size}


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """One product per rank; every operand and the result move once between memory and chip.

    The links carry at least an all-reduce of the product, 2 (W-1)/W of it one way without reduction inside the network.
    That counts partial sums in the run's dtype, although a solution may send wider ones.
    """
    rows, columns, inner = dims["M"], dims["N"], dims["K"]
    wire = 2 * (world_size - 1) / world_size * rows * columns * element_bytes
    return Cost(
        flops={"matmul": 2 * rows * columns * inner},
        memory_bytes=element_bytes * (rows * inner + inner * columns + rows * columns),
        wire_bytes=wire,
        reference_wire_bytes=wire,
        note="Assumes no reduction inside the network.",
    )


PROBLEM = Problem(
    number=13,
    slug="gemm_allreduce",
    title="GEMM + all-reduce",
    summary="Every rank multiplies its own pair of matrices; the products are summed, with the sum on every rank.",
    origin=None,
    parallelism=(Parallelism.TENSOR,),
    communication=(Communication.ALL_REDUCE,),
    block=Block.MLP,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.LLM,
    signature="solution(A_local: Tensor, B_local: Tensor) -> Tensor",
    arguments=(
        Argument(
            name="A_local",
            shape=("M", "K"),
            values="normal, times a scale of the rank's own between 1/2 and 2; new on every rank and call",
        ),
        Argument(
            name="B_local",
            shape=("K", "N"),
            values="normal, times a log-normal scale per column; new on every rank and call",
        ),
    ),
    outputs=(
        Output(
            name="C",
            shape=("M", "N"),
            placement=Placement.REPLICATED,
            tolerance=Tolerance(
                atol=0.12,
                rtol=0.12,
                rms=0.0085,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16. At tiny, 2, 4 and 8 ranks, 6 calls. Honest "
                "programs (bfloat16 ring, backwards, chunked, scattered; float32) err by at most 0.033 and 0.0042 rms. "
                "The cheapest cheats (8-bit payload, one scale per row) err by at least 0.074 and 0.0192 rms. At base, "
                "4 ranks, 1 call: honest 0.019 and 0.0032 rms, cheats 0.108 and 0.025 rms: the rms decides. The "
                "largest error grows with the number of elements, so its bound is wide.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=fixed(M=128, N=512, K=64), system="a smoke test on CPU ranks"),
        SizeName.BASE: Size(dims=fixed(M=1024, N=1024, K=512), system="the card's size"),
        SizeName.LARGE: Size(
            dims=large,
            system="Llama 3.1 70B (hidden size 8192, intermediate size 28672), tensor-parallel prefill of 8192 tokens: "
            "the down projection of one MLP",
        ),
    },
    cost=cost,
    refuses_world_size=divisors_of(INTERMEDIATE),
    world_size_rule="a divisor of 28672",
    hops=(
        Hop(
            source="every rank",
            target="every rank",
            payload="its partial product, summed: 2 (W-1)/W of M x N elements",
            pattern=Communication.ALL_REDUCE,
        ),
    ),
    regimes=(
        *to_the_ends("2e-9", "9e11", *of_product("A_local", "B_local")),
        exact_sums("C"),
        other_products(
            M=Extent(low=64, high=320, of=64),
            K=Extent(low=64, high=448, of=64),
            N=Extent(low=512, high=1536, of=512),
        ),
        long_extent(
            "tall_products",
            M=Extent(low=1088, high=1152, of=64),
            K=64,
            N=512,
        ),
    ),
    invariants=(
        "Tensors are contiguous and in bfloat16.",
        "Values are finite, and the largest one of a matrix is zero or between 5e-10 and 9.1e11 in size.",
        "M and K are multiples of 64 and N is one of 512. A sweep on CPU ranks also has 16 and 32 rows.",
        "Extents are the same on all ranks.",
    ),
    axes=(rows("K = 512 per rank and N = 1024 (64 and 512 on CPU ranks)"),),
)
