"""An attention layer under tensor and context parallelism, described."""

from dataclasses import replace
from functools import partial

from problems.families import attention_spec as attention
from problems.spec.ranges import Among, Whole
from problems.spec.regimes import HUGE_VALUES, ONE_RANK_HAS_VALUES, TINY_VALUES, ZERO_VALUES, copied_values, of_tensor
from problems.spec.schema import (
    Argument,
    ArgumentKind,
    Cost,
    Dims,
    Hop,
    Output,
    Placement,
    Problem,
    Reading,
    Size,
    SizeName,
    Tolerance,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage
from problems.spec.world_sizes import divisors_of


def cost(dims: Dims, _world_size: int, element_bytes: int) -> Cost:
    """Two projections and causal attention of the rank's heads; FLOPs are the mean over context ranks.

    Context ranks exchange keys and values, or queries and results, or heads. Then outputs are summed over the pair, or
    each of its ranks gets the other's heads and their part of the projection. Or a rank got the weights of the other's
    heads and attends to all of them. Means over context ranks.
    """
    tokens, hidden, features = dims["B"] * dims["S_local"], dims["D"], dims["features"]
    contexts, tensors = dims["cp_size"], dims["tp_size"]
    scores = 4 * tokens * features * (dims["S"] + 1) / 2
    others = tensors - 1
    exchanged = attention.least_exchange(contexts) * tokens * features
    reduced = 2 * others / tensors * tokens * hidden
    projected = others * features * (tokens + hidden)
    all_heads = tensors * exchanged + others * 4 * features * hidden
    return Cost(
        flops={"matmul": 8 * tokens * hidden * features + scores},
        memory_bytes=element_bytes * (2 * tokens * hidden + 4 * features * hidden),
        wire_bytes=min(exchanged + min(reduced, projected), all_heads) * element_bytes,
        reference_wire_bytes=(2 * (contexts - 1) * tokens * features + reduced) * element_bytes,
        note="The reference sends every block of keys and values past every context rank and all-reduces the outputs. "
        "Fewer bytes may cost more operations.",
    )


def _dims(*, B: int, S: int, num_heads: int, head_size: int, world_size: int) -> Dims:
    tensors, contexts = 2, world_size // 2
    features = num_heads // tensors * head_size
    shard = {"B": B, "S": max(1, S // contexts) * contexts, "S_local": max(1, S // contexts)}
    layer = {"D": num_heads * head_size, "num_heads": num_heads, "features": features, "3*features": 3 * features}
    return shard | layer | {"tp_size": tensors, "cp_size": contexts}


def _of_heads(dims: Dims, world_size: int, *, size: int | None = None) -> Dims:
    """All dimensions where a regime sets how many heads a rank has, of the usual size or another."""
    contexts, heads = world_size // 2, 2 * dims["heads_local"]
    size = size or dims["D"] // dims["num_heads"]
    other = _dims(B=dims["B"], S=dims["S_local"] * contexts, num_heads=heads, head_size=size, world_size=world_size)
    return {**dims, **other}


PROBLEM = Problem(
    number=55,
    slug="ring_attention_tp",
    title="Attention layer with tensor parallelism and ring attention",
    summary="One causal attention layer: heads split over pairs of ranks, positions over the pairs.",
    origin="ring-flash-attention (zhuzilin), in Megatron-LM's order of ranks",
    parallelism=(Parallelism.TENSOR, Parallelism.CONTEXT),
    communication=(Communication.SEND_RECV, Communication.ALL_REDUCE),
    block=Block.ATTENTION,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.LLM,
    signature="solution(hidden_states: Tensor, w_qkv: Tensor, w_o: Tensor, num_heads: int, "
    "softmax_scale: float or None = None, causal: bool = False, tp_group: ProcessGroup or None = None, "
    "cp_group: ProcessGroup or None = None) -> Tensor",
    arguments=(
        Argument(
            name="hidden_states",
            shape=("B", "S_local", "D"),
            values="standard normal, different on every context rank",
            shared_within="tp_group",
        ),
        Argument(
            name="w_qkv",
            shape=("3*features", "D"),
            values="normal; sharpness differs between heads, one value channel per head is an outlier",
            shared_within="cp_group",
        ),
        Argument(
            name="w_o",
            shape=("D", "features"),
            values="normal, four rows are outliers",
            shared_within="cp_group",
        ),
        Argument(
            name="num_heads",
            kind=ArgumentKind.INTEGER,
            dtype="int",
            values="8, of which a rank has half; 32 at large",
            replicated=True,
        ),
        *attention.SCALE_AND_CAUSAL,
        Argument(name="tp_group", kind=ArgumentKind.GROUP, dtype="process group", values="ranks 2c and 2c + 1"),
        Argument(
            name="cp_group",
            kind=ArgumentKind.GROUP,
            dtype="process group",
            values="all even or all odd ranks, in order",
        ),
    ),
    outputs=(
        Output(
            name="out",
            shape=("B", "S_local", "D"),
            placement=Placement.SHARDED,
            sharding="context rank c holds positions c*S_local to (c+1)*S_local - 1, equal within a pair",
            tolerance=Tolerance(
                atol=0.9,
                rtol=0.2,
                rms=0.0087,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, tiny at 2 and 4 ranks. Honest programs "
                "(projections and partial sums rounded to bfloat16; float32) err by at most 0.063 and 0.0039 rms. The "
                "cheapest cheat (8-bit payload, one scale per row) errs by at least 0.073 and 0.019 rms; the rms "
                "decides. The largest error grows with the number of elements: at base, in 60 calls of 0.26 million, "
                "it was 0.12; at large, on 2 H200, 0.45. So its bound is wide.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: _dims(B=2, S=32, num_heads=4, head_size=64, world_size=world_size),
            system="a check on CPU ranks",
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: _dims(B=16, S=16, num_heads=8, head_size=64, world_size=world_size),
            system="16 very short sequences: latency alone",
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: _dims(B=1, S=32_768, num_heads=32, head_size=128, world_size=world_size),
            system="one layer of LLaMA-2-7B-32K (hidden size 4096, 32 heads of 128) over its context of 32768 tokens",
        ),
    },
    cost=cost,
    refuses_world_size=divisors_of(8, needs="2, 4 or 8 ranks, in pairs that share the heads"),
    world_size_rule="2, 4 or 8",
    groups="rank = 2c + t: tp_group holds both t of a c, cp_group all c of a t",
    hops=(
        attention.RING_STEP,
        Hop(
            source="tensor rank t",
            target="its partner",
            payload="its heads' contribution to the output, summed",
            pattern=Communication.ALL_REDUCE,
        ),
    ),
    mutants_not_applicable={
        "peer_output": "both ranks of a tensor-parallel pair owe the same; on 2 ranks that is everyone"
    },
    notes=("On 2 ranks the context group has one member: no ring, only the sum over the pair.",),
    counted_flops=Reading(
        least=1.005,
        most=1.05,
        reason="The reference computes blocks on the diagonal in full, though a query sees half of their keys.",
    ),
    regimes=(
        attention.other_length(Whole(low=2, high=3), _of_heads),
        attention.one_position(Whole(low=2, high=3), _of_heads),
        attention.wide_heads(partial(_of_heads, size=128)),
        attention.many_heads(partial(_of_heads, size=32)),
        attention.NOT_CAUSAL,
        attention.FLAT_SCALE,
        attention.LOW_BELOW_MASKED,
        attention.MORE_HEADS,
        replace(
            TINY_VALUES,
            words="all values of w_o are below 1e-4 in size, and the value rows of w_qkv may be as much larger (huge)",
            settings={"values": "tiny", "value_rows": Among(options=("huge", "usual"))},
        ),
        *of_tensor("w_o", HUGE_VALUES),
        replace(
            ZERO_VALUES,
            words="all values of hidden_states are zero, or those of each rank's first position",
            settings={"values": "zero", "zeros": Among(options=("first", "all"))},
        ),
        replace(ONE_RANK_HAS_VALUES, words="all of w_o is zero on one rank of every pair"),
        attention.HUGE_POSITIONS,
        copied_values("out", words="every position attends to the first alone and both weights pick one element each"),
    ),
    invariants=(
        "Tensors are contiguous, and have the same shapes on all ranks.",
        attention.softmax_scale(1.25),
        "Elements are at most 1e15 in size, those of a head's values at most 1e10, and nonzero ones at least 1e-19.",
        "Keys of one rank that together weigh less than 1e-3 decide no result.",
        attention.SCORES,
        "The hidden size D is `num_heads` times the head size, which is 32, 64 or 128.",
        "The number of a rank's positions need not be even.",
        "Groups are as described: pairs of neighbours, and every second rank.",
        "Heads are as many on both ranks of a pair; there are as many key heads as query heads.",
    ),
)
