"""All-gather, two-layer SiLU MLP, reduce-scatter, described."""

from dataclasses import replace

from problems.spec.axes import rows
from problems.spec.ranges import Among, Extent, Whole
from problems.spec.regimes import (
    SUMMED_VALUES,
    copied_values,
    further,
    long_extent,
    of_tensor,
    other_extents,
    zero_on_one_rank,
)
from problems.spec.schema import (
    Argument,
    Cost,
    Dims,
    Hop,
    Output,
    Placement,
    Problem,
    Reading,
    Regime,
    Scope,
    Size,
    SizeName,
    Tolerance,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage


def dims(world_size: int, *, rows: int, hidden: int, inner: int) -> Dims:
    """The dimensions with rows and hidden size rounded up to multiples of the world size."""
    local_rows, local_hidden = -(-rows // world_size), -(-hidden // world_size)
    return {
        "M_rows": world_size * local_rows,
        "M_local": local_rows,
        "H": world_size * local_hidden,
        "H_local": local_hidden,
        "F": inner,
    }


def _split(dims: Dims, world_size: int) -> Dims:
    return {**dims, "M_local": dims["M_rows"] // world_size, "H_local": dims["H"] // world_size}


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """What the result needs: both layers for the own rows, and the own rows of every peer's shard.

    The reference gathers whole shards and sums blocks of which all but one are zero.
    """
    rows, own, hidden, shard, inner = dims["M_rows"], dims["M_local"], dims["H"], dims["H_local"], dims["F"]
    received = (world_size - 1) * own * shard * element_bytes
    gathered = (world_size - 1) * rows * shard * element_bytes
    scattered = (world_size - 1) * own * hidden * element_bytes
    return Cost(
        flops={"matmul": 4 * own * hidden * inner},
        memory_bytes=element_bytes * (own * hidden + 2 * hidden * inner + own * hidden),
        wire_bytes=received,
        reference_wire_bytes=gathered + scattered,
        note="A rank uses only its own rows of the gathered matrix, and its block of the sum has one term that is not "
        "zero. The reference moves and computes everything all the same.",
    )


PROBLEM = Problem(
    number=15,
    slug="combined_sharded_gemms",
    title="All-gather, two-layer SiLU MLP, reduce-scatter",
    summary="Gathers an input that is sharded along the hidden dimension, applies a two-layer MLP and scatters rows of "
    "the result.",
    origin=None,
    parallelism=(Parallelism.TENSOR, Parallelism.SEQUENCE),
    communication=(Communication.ALL_GATHER, Communication.REDUCE_SCATTER),
    block=Block.MLP,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.LLM,
    signature="solution(x_local: Tensor, W1: Tensor, W2: Tensor) -> Tensor",
    arguments=(
        Argument(
            name="x_local",
            shape=("M_rows", "H_local"),
            values="normal with a log-normal scale per element; new on every rank and call",
        ),
        Argument(
            name="W1",
            shape=("H", "F"),
            values="normal with standard deviation H^-1/2; new on every rank and call",
        ),
        Argument(
            name="W2",
            shape=("F", "H"),
            values="normal with standard deviation F^-1/2; new on every rank and call",
        ),
    ),
    outputs=(
        Output(
            name="y_local",
            shape=("M_local", "H"),
            placement=Placement.SHARDED,
            sharding="rank r holds row block r",
            tolerance=Tolerance(
                atol=0.05,
                rtol=0.05,
                rms=0.0075,
                scope=Scope.ROW,
                calibration="2026-11-21, torch 2.13 CPU, gloo, bfloat16. At base, 4 ranks, 3 calls. Honest programs "
                "(rounded after every layer; float32) err by at most 0.013 and 0.0032 rms. The cheapest cheat (input "
                "sent in 8 bits, one scale per row) errs by at least 0.083 and 0.0189 rms. At tiny, 2 to 8 ranks, 6 "
                "calls: honest 0.013 and 0.0038 rms, the cheat 0.030 and 0.0113 rms: the rms decides. The bound leaves "
                "room for more elements: base, 2 ranks, 60 calls of 0.26 million, 0.014.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: dims(world_size, rows=48, hidden=64, inner=96), system="a check on CPU ranks"
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: dims(world_size, rows=1024, hidden=256, inner=512), system="the card's size"
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: dims(world_size, rows=8192, hidden=4096, inner=14_336),
            system="the MLP of Llama 3.1 8B (hidden size 4096, inner size 14336) for 8192 tokens, without its gate",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="rank r",
            target="every other rank",
            payload="its columns of the input",
            pattern=Communication.ALL_GATHER,
        ),
        Hop(
            source="every rank",
            target="rank r",
            payload="row block r of the result, a sum with one term that is not zero",
            pattern=Communication.REDUCE_SCATTER,
        ),
    ),
    notes=(
        "The result needs neither the whole gathered input nor any sum over ranks; programs that use this are right.",
        "Both weights are whole and differ between ranks, so this is no tensor-parallel layer, only its pattern.",
        "The reference keeps the pattern, with all its traffic: part of a speedup here is algebra.",
    ),
    counted_flops=Reading(
        least=1.0,
        most=4.5,
        reason="The reference multiplies all rows and keeps one block of W: (W + 1) / 2 times what the result needs.",
    ),
    regimes=(
        *further(24, *of_tensor("x_local", *SUMMED_VALUES)),
        zero_on_one_rank("W1 and W2"),
        Regime(
            name="weights_apart",
            words="W1 is below 1e-4 in size and W2 around ten million, beyond the range of float16",
            settings={"weights": "apart"},
            narrow="arguments_in_float16",
        ),
        Regime(
            name="closed_gates",
            words="all results of the first layer are so far below zero, or up to one further",
            settings={"closed_by": Whole(low=17, high=62)},
            apart=("tiny_values", "huge_values", "weights_apart", "copied_values"),
        ),
        copied_values("y_local", words="values lie between 64 and 128 and columns of both weights pick one each"),
        replace(
            other_extents(
                derive=_split,
                M_rows=Extent(low=16, high=272, of=16),
                H=Extent(low=64, high=448, of=64),
                F=Extent(low=32, high=416, of=32),
            ),
            words="tensors have other extents than usual, and some rows may be zero on all ranks",
            settings={"rows": Among(options=("usual", "some zero"))},
        ),
        long_extent(
            "tall_products",
            derive=_split,
            M_rows=Extent(low=2080, high=4160, of=16),
            H=64,
            F=Extent(low=160, high=416, of=32),
        ),
    ),
    invariants=(
        "Tensors are contiguous and in bfloat16.",
        "Values are finite: at most 1e18 in size in `x_local`, 1 in `W1` and 2e7 in `W2`.",
        "The largest value of `x_local` on a rank is zero or at least 1e-15, and that of `W1` zero or at least 4e-9.",
        "A row of the first layer's results is zero, or its largest is at least -64.",
        "M is a multiple of 16, F of 32 and H of 64.",
        "W divides M and H: M/W is at least 2, and H/W a multiple of 8.",
        "Extents are the same on all ranks.",
    ),
    axes=(rows("H = 256 and F = 512 (64 and 96 on CPU ranks)", symbol="M_rows", split="M_local"),),
)
