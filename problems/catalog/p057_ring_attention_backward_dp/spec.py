"""Ring attention backward with data-parallel averaging, described."""

from dataclasses import replace

from problems.families import attention_spec as attention
from problems.spec.ranges import Among, Real, Whole
from problems.spec.regimes import SUMMED_VALUES, ZERO_VALUES, copied_values, long_extent, of_tensor
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

_SHAPE = ("B", "S_local", "num_heads", "head_dim")
_TOLERANCE = Tolerance(
    atol=1.0,
    rtol=0.2,
    rms=0.01,
    calibration="2026-11-29, CPU, torch 2.13, bfloat16, every regime and every two, base on 2 and 8 ranks, tiny on 2, "
    "4 and 8. Honest programs reach at most 0.24 of the limit and 0.0048 rms in 267,000 results. They are rings, "
    "products in float32, and fused kernels whose blocks are rounded too. A few rows decide the rms, so the largest "
    "error varies by ten times between calls. Values on a wire of 8 bits, one scale per row, err by at least 0.0153 "
    "rms. Keys and sums of dk err by more where scores are large or negative. Sums of dq alone err by 0.007, which "
    "passes.",
)

_OF_VALUES = Tolerance(
    atol=0.4,
    rtol=0.2,
    rms=0.008,
    calibration="2026-11-29, as of dq and dk. Channel by channel, honest programs reach at most 0.12 of the limit and "
    "0.0039 rms. The cheapest cheat (8-bit payloads, one scale per row; on 2 ranks only the last sum travels) errs by "
    "at least 0.097 rms. With one rms for all channels it was 0.013, and an honest element came to 0.95 of the limit.",
)


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Five products per pair of a query and a key that it sees, all of them unless attention is causal.

    There are three ways. Keys and values travel and their gradients come back, or queries with their output's gradient
    and then theirs, or heads go to one rank each. Counted is the least, a mean over ranks, in the run's dtype. It is
    that of causal attention, where half the pairs are seen, because a call may be either.
    """
    cp, dp = dims["cp_size"], dims["dp_size"]
    block = dims["B"] * dims["S_local"] * dims["num_heads"] * dims["head_dim"]
    reduced = 2 * (dp - 1) / dp * 3 * block * element_bytes
    return Cost(
        flops={"matmul": 10 * block * cp * dims["S_local"] / 2},
        memory_bytes=8 * block * element_bytes + 4 * dims["B"] * dims["num_heads"] * dims["S_local"],
        wire_bytes=attention.least_exchange(cp, by_keys=4, by_queries=3) * block * element_bytes + reduced,
        reference_wire_bytes=2 * (cp - 1) * block * element_bytes + 2 * (cp if cp > 1 else 0) * block * 4 + reduced,
        note="The reference sends every block of keys and values past every rank, and carries float32 gradients all "
        "the way around.",
    )


def _dims(*, B: int, S: int, num_heads: int, head_dim: int, world_size: int) -> Dims:
    """`S` positions over the context ranks of each of two replicas."""
    dp = min(2, world_size)
    cp = world_size // dp
    return {
        "dp_size": dp,
        "cp_size": cp,
        "B": B,
        "S_local": max(1, S // cp),
        "num_heads": num_heads,
        "head_dim": head_dim,
    }


PROBLEM = Problem(
    number=57,
    slug="ring_attention_backward_dp",
    title="Ring attention backward with data-parallel averaging",
    summary="Gradients of attention over a sequence that is cut over the ranks, averaged over two replicas.",
    origin="ring-flash-attention (zhuzilin) with Megatron-LM rank order (cp-dp)",
    parallelism=(Parallelism.CONTEXT, Parallelism.DATA),
    communication=(Communication.SEND_RECV, Communication.ALL_REDUCE),
    block=Block.ATTENTION,
    stage=(Stage.TRAINING,),
    domain=Domain.LLM,
    signature="solution(dout, q, k, v, out, softmax_lse, softmax_scale=None, causal=False, cp_group=None, "
    "dp_group=None)",
    arguments=(
        Argument(
            name="dout", shape=_SHAPE, values="normal, channels of very different scales, different on every rank"
        ),
        Argument(name="q", shape=_SHAPE, values="normal, with a scale per head between 1 and 2"),
        Argument(name="k", shape=_SHAPE, values="standard normal, different on every rank"),
        Argument(name="v", shape=_SHAPE, values="long-tailed, different on every rank"),
        Argument(name="out", shape=_SHAPE, values="the forward pass over the whole sequence, rounded"),
        Argument(
            name="softmax_lse",
            shape=("B", "num_heads", "S_local"),
            dtype="float32",
            values="logarithm of each query's softmax denominator over the whole sequence",
        ),
        Argument(
            name="softmax_scale",
            kind=ArgumentKind.REAL,
            dtype="float",
            values="None (then head_dim^-0.5) or a secret number near it; new on every call",
            replicated=True,
        ),
        Argument(
            name="causal", kind=ArgumentKind.BOOLEAN, dtype="bool", values="drawn for every call", replicated=True
        ),
        Argument(
            name="cp_group",
            kind=ArgumentKind.GROUP,
            dtype="process group",
            values="the W/2 neighbours that share a sequence, in order",
        ),
        Argument(
            name="dp_group",
            kind=ArgumentKind.GROUP,
            dtype="process group",
            values="the two ranks at the same place of different sequences",
        ),
    ),
    outputs=tuple(
        Output(
            name=name,
            shape=_SHAPE,
            placement=Placement.SHARDED,
            sharding="context rank c holds positions c*S_local to (c+1)*S_local - 1; replicated over dp_group",
            tolerance=tolerance,
        )
        for name, tolerance in (("dq", _TOLERANCE), ("dk", _TOLERANCE), ("dv", _OF_VALUES))
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: _dims(B=2, S=64, num_heads=2, head_dim=128, world_size=world_size),
            system="a check on CPU ranks",
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: _dims(B=16, S=16, num_heads=8, head_dim=64, world_size=world_size),
            system="a very short sequence: latency alone",
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: _dims(B=1, S=16_384, num_heads=32, head_dim=128, world_size=world_size),
            system="LLaMA-2-7B-32K (32 heads of 128, no grouped queries), sequences of half its context, 16384 tokens",
        ),
    },
    cost=cost,
    refuses_world_size=divisors_of(8, needs="2, 4 or 8 ranks"),
    world_size_rule="2, 4 or 8",
    groups="rank d*W/2 + c: cp_group = the W/2 neighbours of replica d; dp_group = ranks c and c + W/2",
    hops=(
        Hop(
            source="context rank c",
            target="context rank c + 1",
            payload="a block of keys and values, and the gradients collected for it",
            pattern=Communication.SEND_RECV,
        ),
        Hop(
            source="replica d",
            target="the other replica",
            payload="dq, dk and dv, summed",
            pattern=Communication.ALL_REDUCE,
        ),
    ),
    mutants_not_applicable={
        "peer_output": "both ranks of a pair owe the same outputs: on 2 ranks those of the other are right"
    },
    notes=(
        "On 2 ranks the context group has one member: there is no ring, only the mean over replicas.",
        "Training averages the gradients of weights over replicas, not those of activations; the mean stands for it.",
    ),
    counted_flops=Reading(
        least=1.0,
        most=2.0,
        reason="A call may be causal or not; the model counts causal attention, half the pairs, because it is "
        "the least.",
    ),
    regimes=(
        # A mean over a number of positions that is no power of two is rounded.
        replace(attention.OTHER_SHAPE, apart=("copied_values",)),
        replace(
            long_extent(
                "many_positions", B=1, S_local=Whole(low=129, high=200, often=(160,)), num_heads=1, head_dim=32
            ),
            words="a rank holds more than 128 positions, of one sequence and one head of 32 channels",
            apart=("copied_values",),
        ),
        replace(
            long_extent(
                "many_heads",
                B=Whole(low=1, high=2),
                S_local=Whole(low=5, high=16),
                num_heads=Whole(low=17, high=40),
                head_dim=64,
            ),
            words="a rank has more than 16 heads, of 64 channels each, of which there are few positions",
            apart=("copied_values",),
        ),
        attention.FLAT_SCALE,
        replace(
            attention.LARGE_SCORES,
            words="all scores are beyond 100, and exponentials of them and of softmax_lse overflow float32; every "
            "second key, and on more than 2 ranks every one of one context rank, has a weight of about 1e-5 and values "
            "of 1e5",
            settings={"scores": "large", "softmax_scale": 1.0, "second_keys": "rare"},
        ),
        replace(
            attention.LOW_BELOW_MASKED,
            words="causal is True, and softmax_lse of early positions is below -150, so that its exponential is zero "
            "in float32; scores that the mask hides from them are above 150",
            settings={
                "scores": "masked_high",
                "softmax_scale": 1.0,
                "causal": True,
                "added": Real(low=250.0, high=950.0, by_size=True),
            },
        ),
        replace(
            attention.UNEVEN_KEYS,
            words="keys and values are around ten million, beyond the range of float16, and queries as much smaller, "
            "or queries are that large and keys as much smaller (tiny)",
        ),
        *of_tensor("dout", *SUMMED_VALUES[:2]),
        replace(
            ZERO_VALUES,
            words="all values of dout are zero, or of q or k alone, or of dout at each rank's first position",
            settings={"values": "zero", "zeros": Among(options=("q", "k", "first dout", "dout"))},
        ),
        *of_tensor("dout", *SUMMED_VALUES[3:]),
        replace(
            copied_values(
                "dv", words="queries and keys are zero, and of dout all but the last position of one replica"
            ),
            narrow="nothing_where_zero",
        ),
    ),
    invariants=(
        "Tensors are contiguous, and all of one shape on all ranks.",
        attention.softmax_scale(1.25),
        "Neither the number of a rank's positions nor that of heads need be even.",
        "The head size is 32, 64 or 128. There are as many key heads as query heads.",
        "Values are at most 1e15 in size, and nonzero ones at least 1e-19.",
        attention.SCORES,
        "Weights of single keys below 1e-9 decide no result.",
        "`out` and `softmax_lse` are those of the forward pass.",
        "Groups are as described, and there are two replicas.",
    ),
)
