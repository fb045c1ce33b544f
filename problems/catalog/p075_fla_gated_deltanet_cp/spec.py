"""Gated DeltaNet with context parallelism through head all-to-all, described."""

from dataclasses import replace

from problems.spec.ranges import Among, Extent, Real, Whole
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


def _sized(*, batch: int, tokens: int, heads: int, keys: int, values: int, world_size: int) -> Dims:
    """Dimensions for `tokens` per rank; heads rounded up to a multiple of the world size."""
    rounded = -(-heads // world_size) * world_size
    return {
        "B": batch,
        "Ls": tokens,
        "Hh": rounded,
        "Hl": rounded // world_size,
        "Kd": keys,
        "Vd": values,
    }


def tiny(world_size: int) -> Dims:
    """Few tokens of few channels."""
    return _sized(batch=2, tokens=24, heads=4, keys=32, values=48, world_size=world_size)


def base(world_size: int) -> Dims:
    """The card's size."""
    return _sized(batch=1, tokens=64, heads=6, keys=256, values=512, world_size=world_size)


def large(world_size: int) -> Dims:
    """A linear attention layer of Qwen3-Next with a long context."""
    tokens = -(-LONG_CONTEXT // world_size)
    return _sized(batch=1, tokens=tokens, heads=32, keys=128, values=128, world_size=world_size)


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Seven operations per token and element of the state, every tensor read or written once.

    A rank's tokens depend on the earlier ones through a state of Kd x Vd numbers per head, or through the keys and
    values themselves where these are fewer. One of the two has to arrive; all else can stay where it is.
    """
    heads = dims["B"] * dims["Hh"]
    per_token = 2 * dims["Kd"] + 2 * dims["Vd"] + 2
    remote = (world_size - 1) / world_size
    moved = remote * element_bytes * dims["Ls"] * heads * per_token
    state = element_bytes * heads * dims["Kd"] * dims["Vd"]
    pairs = element_bytes * heads * remote * dims["Ls"] * (dims["Kd"] + dims["Vd"])
    return Cost(
        flops={"matmul": 7 * heads * dims["Ls"] * dims["Kd"] * dims["Vd"]},
        memory_bytes=element_bytes * dims["Ls"] * heads * per_token + 4 * dims["Hl"],
        wire_bytes=min(state, pairs),
        reference_wire_bytes=moved,
        note="Passing states from rank to rank needs fewer bytes than exchanging tokens for heads, at the price of a "
        "chain of ranks; counted once in the run's dtype.",
    )


PROBLEM = Problem(
    number=75,
    slug="fla_gated_deltanet_cp",
    title="Gated DeltaNet with context parallelism through head all-to-all",
    summary="Linear attention with a decaying delta-rule state, on a sequence that is split over ranks.",
    origin="Megatron-LM / flash-linear-attention Gated DeltaNet (context parallel to head parallel all-to-all, as for "
    "Qwen3-Next)",
    parallelism=(Parallelism.CONTEXT,),
    communication=(Communication.ALL_TO_ALL,),
    block=Block.ATTENTION,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.LLM,
    signature="solution(q: Tensor, k: Tensor, v: Tensor, gate: Tensor, beta: Tensor, a_log: Tensor, dt_bias: Tensor, "
    "group: Optional[ProcessGroup] = None) -> Tensor",
    arguments=(
        Argument(name="q", shape=("B", "Ls", "Hh", "Kd"), values="normal; the rank's tokens, all heads"),
        Argument(name="k", shape=("B", "Ls", "Hh", "Kd"), values="normal"),
        Argument(name="v", shape=("B", "Ls", "Hh", "Vd"), values="long-tailed"),
        Argument(name="gate", shape=("B", "Ls", "Hh"), values="normal around -5 in timed calls: slow forgetting"),
        Argument(name="beta", shape=("B", "Ls", "Hh"), values="sigmoid of normal values"),
        Argument(name="a_log", shape=("Hl",), dtype="bfloat16", values="uniform in (-1, 1); the rank's heads"),
        Argument(name="dt_bias", shape=("Hl",), dtype="bfloat16", values="uniform in (-1, 1); the rank's heads"),
        Argument(name="group", kind=ArgumentKind.GROUP, values="None: the world group"),
    ),
    outputs=(
        Output(
            name="out",
            shape=("B", "Ls", "Hh", "Vd"),
            placement=Placement.SHARDED,
            sharding="rank r holds tokens r*Ls to (r+1)*Ls - 1, all heads",
            tolerance=Tolerance(
                atol=0.4,
                rtol=0.2,
                rms=0.012,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, tiny, 2 and 4 ranks, 3 calls. Honest "
                "programs (token by token, sequence gathered, keys and queries rounded to bfloat16) err by at most "
                "0.064 and 0.0031 rms. The cheapest cheats (gates of another call, decays of another head, exchange in "
                "float8) err by at least 0.167 and 0.042 rms; the rms decides. The largest error grows with the number "
                "of elements: at base, in 55 calls of 0.4 million, it was 0.095 with rounded keys. So its bound is "
                "wide.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=tiny, system="a smoke test on CPU ranks"),
        SizeName.BASE: Size(dims=base, system="the card's size"),
        SizeName.LARGE: Size(
            dims=large,
            system="a linear attention layer with the 32 value heads of width 128 of Qwen3-Next 80B-A3B (queries and "
            "keys already repeated to 32 heads), 32768 tokens",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="every rank",
            target="the rank that owns the heads",
            payload="queries, keys, values, gates and strengths of its tokens",
            pattern=Communication.ALL_TO_ALL,
        ),
        Hop(
            source="the rank that owns the heads",
            target="every rank",
            payload="the outputs of its tokens",
            pattern=Communication.ALL_TO_ALL,
        ),
    ),
    counted_flops=Reading(
        least=1.8,
        most=2.0,
        reason="The reference works in chunks, with about twice the operations of the recurrence, but in matrix "
        "products.",
    ),
    regimes=(
        Regime(
            name="fast_forgetting",
            words="heads forget within a token or two",
            settings={"gate_mean": 1.0},
            apart=("first_has_values",),  # Of what a state recalls after two ranks nothing is left but its rounding.
        ),
        Regime(
            name="saturated",
            words="gates are 128 or -128, and strengths are 0 or 1, perhaps all 0 for one head of a sequence",
            settings={"saturated": Among(options=("mixed", "one_head_learns_nothing")), "gate_mean": 0.0},
            apart=("first_has_values",),
        ),
        Regime(
            name="zero_keys",
            words="a quarter of the keys are zero, as those of padding, or all keys of a head are equal",
            settings={"zero_keys": Among(options=("zero", "equal"))},
            apart=("first_has_values",),  # Equal keys would overwrite what a state recalls of another rank.
        ),
        Regime(
            name="short_keys",
            words="queries and keys are of all lengths from 2e-6 to 900,000",
            settings={"short": True},
            dtypes=("bfloat16", "float32"),
            apart=("zero_keys",),  # Where all keys are equal, their rounding adds up over a whole sequence.
        ),
        Regime(
            name="zero_queries",
            words="a quarter of the queries are zero, and so is the first channel of v",
            settings={"zero_queries": True},
        ),
        Regime(
            name="first_has_values",
            words="v is zero on every rank but the first, so that all results come from the state, of which little is "
            "left after a rank",
            settings={"v_on": "first", "forgotten": Real(low=7, high=10)},
            narrow="nothing_where_zero",
        ),
        Regime(
            name="few_tokens",
            words="a rank has few tokens, or a number of them that fills no chunk",
            dims={"Ls": Extent(high=63)},
            narrow="tail_left_out",
        ),
        Regime(
            name="other_length",
            words="a rank has another number of tokens, which are more than two chunks of 64 on all ranks",
            dims={"Ls": Whole(low=65, high=300, often=(79,))},
            apart=("first_has_values",),
        ),
        *of_tensor("v", TINY_VALUES),
        replace(
            HUGE_VALUES,
            words="values of v are around ten million, beyond the range of float16, on all ranks or the last alone",
            settings={**HUGE_VALUES.settings, "huge_on": Among(options=("all", "last"))},
        ),
    ),
    invariants=(
        "Queries and keys are zero, or 1.9e-6 to 910,000 long.",
        "Tensors are contiguous.",
        "`v` is zero, or from 1e-21 to 1e11 in size; `beta` is 0, 1, or between 0.001 and 0.999.",
        "Where heads forget within a token or two, every rank has values.",
        "`group` is None, the world group.",
        "Every rank has as many tokens, and the number of heads is a multiple of the world size.",
        "B, H, K and V are those of the size.",
        "`gate` lies between -128 and 128, `a_log` and `dt_bias` between -1 and 1.",
    ),
)
