"""Kimi Delta Attention with context and tensor parallelism, described."""

from problems.spec.ranges import Among, Whole
from problems.spec.regimes import HUGE_VALUES, TINY_VALUES, of_tensor
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
    Regime,
    Size,
    SizeName,
    Tolerance,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

LONG_CONTEXT = 32768
HEADS = 32


def tensor_ranks(world_size: int) -> int:
    """Ranks whose outputs are summed: pairs, where that leaves a context group of two or more."""
    return 2 if world_size >= 4 and world_size % 2 == 0 else 1


def _sized(*, batch: int, tokens: int, heads: int, keys: int, values: int, world_size: int) -> Dims:
    """Dimensions for `tokens` per rank and so many heads on each."""
    tensors = tensor_ranks(world_size)
    return {
        "tp": tensors,
        "cp": world_size // tensors,
        "B": batch,
        "Ls": tokens,
        "Hh": heads,
        "Kd": keys,
        "Vd": values,
        "Hh*Kd": heads * keys,
    }


def tiny(world_size: int) -> Dims:
    """Few tokens of few channels; their number is no multiple of the usual chunks."""
    return _sized(batch=2, tokens=42, heads=2, keys=32, values=48, world_size=world_size)


def base(world_size: int) -> Dims:
    """The card's size."""
    return _sized(batch=1, tokens=64, heads=16, keys=128, values=128, world_size=world_size)


def large(world_size: int) -> Dims:
    """A layer of Kimi Linear with a long context."""
    tensors = tensor_ranks(world_size)
    tokens = -(-LONG_CONTEXT * tensors // world_size)
    return _sized(batch=1, tokens=tokens, heads=HEADS // tensors, keys=128, values=128, world_size=world_size)


def _of_heads(dims: Dims, _world_size: int) -> Dims:
    """The channels of all keys, where a rank has another number of heads."""
    return {**dims, "Hh*Kd": dims["Hh"] * dims["Kd"]}


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Seven operations per token and element of the state, every tensor read or written once.

    A rank's tokens depend on the earlier ones through the state of each head, of which a rank with fewer tokens than
    keys asks only as many rows. That and the outputs of the tensor group could share a way: the larger is counted.
    """
    heads, contexts, tensors = dims["B"] * dims["Hh"], dims["cp"], dims["tp"]
    tokens = dims["Ls"] * heads
    per_token = 3 * dims["Kd"] + dims["Vd"] + 1
    state = element_bytes * heads * min(dims["Kd"], dims["Ls"]) * dims["Vd"] if contexts > 1 else 0
    summed = 2 * (tensors - 1) / tensors * element_bytes * tokens * dims["Vd"]
    return Cost(
        flops={"matmul": 7 * tokens * dims["Kd"] * dims["Vd"]},
        memory_bytes=element_bytes * tokens * (per_token + dims["Vd"]) + 2 * (dims["Hh"] + dims["Hh*Kd"]),
        wire_bytes=max(state, summed),
        reference_wire_bytes=(contexts - 1) * element_bytes * tokens * per_token + summed,
        note="A state that is handed on, once in the run's dtype, or the outputs of the tensor group, whichever are "
        "more bytes; the reference gathers all tokens.",
    )


PROBLEM = Problem(
    number=74,
    slug="fla_kimi_delta_attention_cp_tp",
    title="Kimi Delta Attention (channel-wise gated delta rule) with context and tensor parallelism",
    summary="Linear attention whose state forgets channel by channel, on a sequence that is split over ranks; outputs "
    "are summed over pairs of ranks.",
    origin="flash-linear-attention (Kimi Delta Attention of Kimi Linear); recurrent reference form",
    parallelism=(Parallelism.CONTEXT, Parallelism.TENSOR),
    communication=(Communication.ALL_GATHER, Communication.ALL_REDUCE),
    block=Block.ATTENTION,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.LLM,
    signature="solution(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, a_log: Tensor, dt_bias: Tensor, "
    "cp_group: Optional[ProcessGroup] = None, tp_group: Optional[ProcessGroup] = None) -> Tensor",
    arguments=(
        Argument(name="q", shape=("B", "Ls", "Hh", "Kd"), values="normal; the rank's tokens and heads"),
        Argument(name="k", shape=("B", "Ls", "Hh", "Kd"), values="normal"),
        Argument(name="v", shape=("B", "Ls", "Hh", "Vd"), values="long-tailed"),
        Argument(name="g", shape=("B", "Ls", "Hh", "Kd"), values="normal around -6 in timed calls: slow forgetting"),
        Argument(name="beta", shape=("B", "Ls", "Hh"), values="normal; a sigmoid is applied inside"),
        Argument(
            name="a_log",
            shape=("Hh",),
            dtype="bfloat16",
            values="uniform in (-0.25, 0.25), the same on all ranks",
            replicated=True,
        ),
        Argument(
            name="dt_bias",
            shape=("Hh*Kd",),
            dtype="bfloat16",
            values="uniform in (-1, 1), the same on all ranks",
            replicated=True,
        ),
        Argument(
            name="cp_group",
            kind=ArgumentKind.GROUP,
            dtype="process group",
            values="every tp-th rank, in order; the world group where tp is 1",
        ),
        Argument(
            name="tp_group",
            kind=ArgumentKind.GROUP,
            dtype="process group",
            values="ranks 2c and 2c + 1; None where tp is 1",
        ),
    ),
    outputs=(
        Output(
            name="out",
            shape=("B", "Ls", "Hh", "Vd"),
            placement=Placement.SHARDED,
            sharding="context rank c holds tokens c*Ls to (c+1)*Ls - 1, equal within a tensor group",
            layout="contiguous",
            tolerance=Tolerance(
                atol=0.7,
                rtol=0.15,
                rms=0.0125,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, tiny, 2 and 4 ranks, 3 calls. Honest "
                "programs (token by token, states handed on, keys and queries rounded to bfloat16, sum in float32) err "
                "by at most 0.022 and 0.0034 rms. The cheapest cheat (exchange in float8) errs by at least 0.22 and "
                "0.045 rms. The largest error grows with the number of elements: at base, in 60 calls of 0.26 million, "
                "it was 0.14 with rounded keys; at large, on 2 H200, 0.30. So its bound is wide and the rms decides.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=tiny, system="a check on CPU ranks"),
        SizeName.BASE: Size(dims=base, system="the card's size: 64 tokens per rank"),
        SizeName.LARGE: Size(
            dims=large,
            system="a KDA layer of Kimi Linear 48B-A3B (32 heads with keys and values of 128), 32768 tokens; a tensor "
            "rank has its share of the heads",
        ),
    },
    cost=cost,
    groups="rank = context rank * tp + tensor rank, with tp = 2 on an even number of at least 4 ranks, else 1",
    hops=(
        Hop(
            source="every rank",
            target="the later ranks of its context group",
            payload="queries, keys, values, gates and strengths of its tokens",
            pattern=Communication.ALL_GATHER,
        ),
        Hop(
            source="every rank",
            target="its tensor group",
            payload="outputs of its tokens, summed",
            pattern=Communication.ALL_REDUCE,
        ),
    ),
    notes=(
        "Ranks of a tensor group have heads of their own; adding up stands for the sum after the output projection.",
    ),
    counted_flops=Reading(
        least=1.7,
        most=1.8,
        reason="The reference passes through all tokens before its own too, in chunks; triangular solves are not seen.",
    ),
    regimes=(
        # A chunk of 16 tokens grows keys by exp(80) then; huge values on top are beyond a float32.
        Regime(
            name="fast_forgetting",
            words="channels forget within a token or two, all or three of four",
            settings={"gate_mean": 6.0, "fast": Among(options=("most", "all"))},
            apart=("huge_values", "first_has_values"),  # What a state then recalls a rank later is its rounding.
        ),
        Regime(
            name="saturated",
            words="gates and strengths are 128 or -128, so that sigmoids are 0 or 1, as drawn or such that nothing is "
            "forgotten and of each rank only the first token learnt",
            settings={"saturated": Among(options=("mixed", "first_alone")), "gate_mean": 0.0},
            apart=("huge_values",),
        ),
        Regime(
            name="zero_keys",
            words="a quarter of the keys are zero, as those of padding, or all keys of a head are equal",
            settings={"zero_keys": Among(options=("zero", "equal"))},
            apart=("first_has_values",),  # Equal keys would overwrite what a state recalls of another rank.
        ),
        Regime(
            name="short_keys",
            words="queries and keys are of all lengths from 2e-12 to 900,000",
            settings={"short": True},
            dtypes=("bfloat16", "float32"),
        ),
        Regime(
            name="zero_queries",
            words="a quarter of the queries are zero, and so is the first channel of v",
            settings={"zero_queries": True},
        ),
        Regime(
            name="first_has_values",
            words="v is zero on every context rank but the first, so that all results come from the state",
            settings={"v_on": "first"},
            narrow="nothing_where_zero",
        ),
        Regime(
            name="other_length",
            words="a rank has other numbers of tokens and heads, and one or two sequences",
            dims={
                "B": Whole(low=1, high=2),
                "Ls": Whole(low=5, high=300, often=(130, 140)),
                "Hh": Whole(low=2, high=20, often=(7,)),
            },
            derive=_of_heads,
            apart=("first_has_values",),
        ),
        *of_tensor("v", TINY_VALUES, HUGE_VALUES),
    ),
    invariants=(
        "Queries and keys are zero, or 1.9e-12 to 910,000 long.",
        "Tensors are contiguous.",
        "`v` is zero, or from 1e-21 to 1e11 in size.",
        "Where channels forget within a token or two, every rank has values, and all are alike in size.",
        "`cp_group` and `tp_group` are those of the process grid.",
        "Every rank has as many tokens and heads, and their numbers may be odd.",
        "Keys have 32 or 128 channels and values 48 or 128; there are one or two sequences and at least two heads.",
        "`g` and `beta` lie between -128 and 128, `a_log` between -0.25 and 0.25, and `dt_bias` between -1 and 1.",
    ),
)
