"""Column-split GEMM + all-gather of the columns, described."""

from problems.families.zero_edges_spec import other_products
from problems.spec.axes import rows
from problems.spec.ranges import Among, Extent
from problems.spec.regimes import exact_products, further, long_extent, of_product
from problems.spec.schema import Argument, Cost, Dims, Hop, Output, Placement, Problem, Size, SizeName, Tolerance
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

VOCABULARY = 128_256
HIDDEN = 4096
"""Vocabulary and hidden size of Llama 3.1 8B (its published configuration)."""


def dims(world_size: int, *, rows: int, inner: int, columns: int) -> Dims:
    """The dimensions for `columns` result columns shared evenly; a remainder is left out."""
    own = columns // world_size
    return {"M": rows, "K": inner, "N_local": own, "WN": world_size * own}


def _whole(dims: Dims, world_size: int) -> Dims:
    return {**dims, "WN": world_size * dims["N_local"]}


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """One block of columns per rank is computed; all blocks are written on every rank."""
    rows, inner, own = dims["M"], dims["K"], dims["N_local"]
    received = (world_size - 1) * rows * own * element_bytes
    return Cost(
        flops={"matmul": 2 * rows * own * inner},
        memory_bytes=element_bytes * (rows * inner + inner * own + rows * dims["WN"]),
        wire_bytes=received,
        reference_wire_bytes=received,
        note="The left matrices differ between ranks, so that only finished columns can be exchanged.",
    )


PROBLEM = Problem(
    number=14,
    slug="gemm_allgather",
    title="Column-split GEMM + all-gather of the columns",
    summary="Every rank computes a block of output columns with its own matrices; the blocks are gathered side by side "
    "on all ranks.",
    origin=None,
    parallelism=(Parallelism.TENSOR,),
    communication=(Communication.ALL_GATHER,),
    block=Block.MLP,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.LLM,
    signature="solution(A: Tensor, B: Tensor) -> Tensor",
    arguments=(
        Argument(name="A", shape=("M", "K"), values="standard normal; new on every rank and call"),
        Argument(
            name="B",
            shape=("K", "N_local"),
            values="normal, times a log-normal scale per column; new on every rank and call",
        ),
    ),
    outputs=(
        Output(
            name="C",
            shape=("M", "WN"),
            placement=Placement.REPLICATED,
            tolerance=Tolerance(
                atol=0.013,
                rtol=0.013,
                rms=0.0063,
                calibration="2026-11-21, torch 2.13 CPU, gloo, bfloat16. At tiny, 2 and 4 ranks, 10 calls. Honest "
                "programs (float32, operands gathered, by rows) err by at most 0.0036 and 0.0019 rms. The cheapest "
                "cheat (8-bit columns, one scale per row) errs by at least 0.039 and 0.0209 rms. At base, 4 ranks, 2 "
                "calls: honest 0.0036 and 0.0017 rms, the cheat 0.056 and 0.0265 rms.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: dims(world_size, rows=24, inner=64, columns=256), system="a check on CPU ranks"
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: dims(world_size, rows=1024, inner=512, columns=1024), system="the card's size"
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: dims(world_size, rows=2048, inner=HIDDEN, columns=VOCABULARY),
            system="Llama 3.1 8B (vocabulary 128256, hidden size 4096): the logits of 2048 tokens from an output "
            "projection whose columns are split over the ranks",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="rank r",
            target="every other rank",
            payload="its block of result columns: M x N/W elements",
            pattern=Communication.ALL_GATHER,
        ),
    ),
    notes=("A differs between ranks, unlike in a real layer: gathering B and multiplying by the own A is wrong here.",),
    regimes=(
        *further(24, *of_product("B", "A")),
        exact_products(
            "C", words="every column of B picks one column of A, whose values are of all sizes", magnitudes="spread"
        ),
        other_products(
            derive=_whole,
            M=Among(options=("8", "32", "56", "72", "136", "264")),
            K=Extent(low=64, high=448, of=64),
            N_local=Extent(low=32, high=352, of=32),
        ),
        long_extent(
            "tall_products",
            derive=_whole,
            M=Extent(low=1040, high=2640, of=8),
            K=64,
            N_local=Extent(low=160, high=352, of=32),
        ),
    ),
    invariants=(
        "Tensors are contiguous and in bfloat16.",
        "Values are finite. The largest of a matrix is zero or between 5e-15 and 1e18 in size.",
        "Where every column of `B` is a single 1 and zeros, the largest of `A` may lie between 1e-30 and 1e32.",
        "No partial sum of products exceeds 1e34 in size.",
        "M is a multiple of 8, K of 64 and N/W of 32.",
        "Extents are the same on all ranks.",
    ),
    axes=(rows("K = 512 and 1024 columns over all ranks (64 and 256 on CPU ranks)"),),
)
