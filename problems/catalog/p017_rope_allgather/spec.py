"""Rotary embedding + sequence all-gather of Q and K, described."""

from dataclasses import replace

from problems.spec.ranges import Among, Extent
from problems.spec.regimes import SPECIAL_VALUES, SUMMED_VALUES, ZERO_VALUES, of_tensor, other_extents, shortened
from problems.spec.schema import (
    EXACT,
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
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage
from problems.spec.world_sizes import divisors_of

LARGEST_WORLD_SIZE = 8


def dims(world_size: int, *, batch: int, tokens: int, heads: int, head_dim: int) -> Dims:
    """The dimensions for sequences of `tokens` that are split evenly over the ranks."""
    local = max(1, tokens // world_size)
    return {"B": batch, "S_local": local, "WS": world_size * local, "heads": heads, "d": head_dim}


_ELEMENTS = 80_000


def _whole(dims: Dims, world_size: int) -> Dims:
    short = shortened(dims, _ELEMENTS // dims["d"], B=1, S_local=1, heads=1)
    return {**short, "WS": world_size * short["S_local"]}


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Three operations per element; the local Q and K are read, the whole of both is written on every rank."""
    positions, width, heads = dims["B"] * dims["S_local"], dims["d"], dims["heads"]
    local = 2 * positions * heads * width
    received = (world_size - 1) * local * element_bytes
    return Cost(
        flops={"fp32": 3 * local},
        memory_bytes=element_bytes * (local + 2 * positions * width + world_size * local),
        wire_bytes=received,
        reference_wire_bytes=received,
        note="Every rank needs the rotated Q and K of W - 1 other shards of the sequence.",
    )


_TOLERANCE = Tolerance(
    atol=0.1,
    rtol=0.1,
    rms=0.0075,
    calibration="2026-11-21, torch 2.13 CPU, gloo, bfloat16. At base, 4 ranks, 3 calls. Honest programs (rounded after "
    "every operation; float32) err by at most 0.016 and 0.0024 rms. The cheapest cheat (float8 shards, one scale per "
    "row) errs by at least 0.053 and 0.0256 rms. At tiny, 2 to 8 ranks, 6 calls: honest 0.012 and 0.0027 rms, the "
    "cheat 0.042 and 0.0184 rms. Rotating 134 million elements in bfloat16 (simulated) errs by up to 0.041, so the rms "
    "decides.",
)
_LOCAL = ("B", "S_local", "heads", "d")
_WHOLE = ("B", "WS", "heads", "d")
_LONG_TAILED = "normal with a log-normal scale per element; new on every rank and call"
_ANGLES = (
    "of position times frequency, plus a secret phase per element of d; positions begin at a secret offset per row"
)

_OF_FEW_ELEMENTS = replace(
    _TOLERANCE, rms=None, calibration="of few elements, one that nearly cancels would decide the root mean square"
)
_ZERO = replace(
    ZERO_VALUES,
    words="all values are zero, or those of one of the two",
    settings={"values": "zero", "zero": Among(options=("both", "q_local", "k_local"))},
)

PROBLEM = Problem(
    number=17,
    slug="rope_allgather",
    title="Rotary embedding + sequence all-gather of Q and K",
    summary="Rotates the local sequence shard of queries and keys and gathers both over the sequence.",
    origin="Hugging Face Transformers (LLaMA rotary embedding) with a sequence all-gather",
    parallelism=(Parallelism.SEQUENCE,),
    communication=(Communication.ALL_GATHER,),
    block=Block.ATTENTION,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.LLM,
    signature="solution(q_local: Tensor, k_local: Tensor, cos_local: Tensor, sin_local: Tensor) -> (Tensor, Tensor)",
    arguments=(
        Argument(name="q_local", shape=_LOCAL, values=_LONG_TAILED),
        Argument(name="k_local", shape=_LOCAL, values=_LONG_TAILED),
        Argument(name="cos_local", shape=("B", "S_local", "d"), values=f"cosines {_ANGLES}"),
        Argument(name="sin_local", shape=("B", "S_local", "d"), values="sines of the same angles"),
    ),
    outputs=(
        Output(name="q_embed", shape=_WHOLE, placement=Placement.REPLICATED, tolerance=_TOLERANCE),
        Output(name="k_embed", shape=_WHOLE, placement=Placement.REPLICATED, tolerance=_TOLERANCE),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: dims(world_size, batch=3, tokens=16, heads=4, head_dim=32),
            system="a check on CPU ranks",
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: dims(world_size, batch=16, tokens=16, heads=8, head_dim=64),
            system="the card's size: 16 sequences of 16 tokens",
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: dims(world_size, batch=1, tokens=32_768, heads=32, head_dim=128),
            system="Llama-2-7B-32K (32 heads of 128 for queries and for keys, context of 32768 tokens), sequence "
            "parallel: the prefill of one layer's attention",
        ),
    },
    cost=cost,
    refuses_world_size=divisors_of(LARGEST_WORLD_SIZE),
    world_size_rule="2, 4 or 8",
    hops=(
        Hop(
            source="rank r",
            target="every other rank",
            payload="its rotated shard of Q and K",
            pattern=Communication.ALL_GATHER,
        ),
    ),
    regimes=(
        *of_tensor(
            "q_local and k_local", *(_ZERO if one is ZERO_VALUES else one for one in SUMMED_VALUES), SPECIAL_VALUES
        ),
        Regime(
            name="no_rotation",
            words="all cosines are 1 and all sines are 0, so that results are copies",
            settings={"angles": "zero"},
            tolerances={"q_embed": EXACT, "k_embed": EXACT},
            narrow="eleven_bit_wire",
        ),
        replace(
            other_extents(
                derive=_whole,
                B=Extent(low=1, high=70),
                S_local=Extent(low=1, high=300),
                heads=Extent(low=1, high=72),
                d=Extent(low=16, high=128, of=16),
            ),
            words="tensors have other extents than usual, the last sequence stands where the first one does, and the "
            "first position of a rank may not be rotated",
            settings={"first_position": Among(options=("usual", "still"))},
            tolerances=dict.fromkeys(("q_embed", "k_embed"), _OF_FEW_ELEMENTS),
        ),
    ),
    invariants=(
        "Tensors are contiguous, and those of all ranks have equal shapes.",
        "`d` is a multiple of 16. `B`, `S_local` and `heads` need be multiples of nothing.",
        "`cos_local` and `sin_local` are the cosines and sines of one set of angles.",
        "Values may be NaN, infinite or subnormal; one NaN is as good as another.",
        "The largest finite value of `q_local` or `k_local` is zero or between 5e-9 and 2e10 in size.",
    ),
)
