"""Importance-sampling policy-gradient loss with LM head, described."""

from dataclasses import replace

from problems.spec.ranges import Among, Extent
from problems.spec.regimes import other_extents
from problems.spec.schema import (
    ALL_OTHERS,
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
    fixed,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

_COUNTED_SHARE = 0.7
"""Of the tokens: 45 to 95 in a hundred, evenly spread over the ranks."""


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """One product for the tokens that count; logits need not be stored. Seven scalars are reduced over the ranks.

    Ignored tokens need no logits. The operations are the mean over ranks: one with many tokens can give some of its
    work, with the head's rows that it is for, to another.
    """
    tokens, hidden, vocabulary = dims["M"], dims["N"], dims["V"]
    counted = _COUNTED_SHARE * tokens
    share = 2 * (world_size - 1) / world_size
    return Cost(
        flops={"matmul": 2 * counted * hidden * vocabulary, "fp32": 5 * counted * vocabulary},
        memory_bytes=element_bytes * (tokens * hidden + vocabulary * hidden + 4 * tokens) + 8 * tokens + 24,
        wire_bytes=share * (4 + 6 * min(2, element_bytes)),
        reference_wire_bytes=share * 28,
        note="Seven scalars on the wire: only their latency counts.",
    )


def _tolerance(*, atol: float, rtol: float, rms: float | None = None) -> Tolerance:
    return Tolerance(
        atol=atol,
        rtol=rtol,
        rms=rms,
        calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, tiny, 2 and 4 ranks, 8 calls. Honest programs "
        "(float32 or everything rounded per token): loss 0.0044 of an allowance of 0.02, log-probabilities 0.0034 rms, "
        "losses per token 0.0097 rms, metrics 0.0148. Cheapest cheats: mean of means 0.12 in the loss, half the "
        "vocabulary 0.18 rms in log-probabilities, no ratio 0.42 rms in losses, extremes of one rank 0.09 in metrics. "
        "At base, 2 ranks, 1 call: honest within 0.4 of every limit.",
    )


def _output(name: str, *, shape: tuple[str | int, ...] = (), dtype: str = "input", tolerance: Tolerance) -> Output:
    placement = Placement.PER_RANK if dtype == "input" else Placement.REPLICATED
    return Output(name=name, shape=shape, dtype=dtype, placement=placement, tolerance=tolerance)


PROBLEM = Problem(
    number=25,
    slug="importance_sampling_loss",
    title="Importance-sampling policy-gradient loss with LM head",
    summary="Log-probabilities of labels under a language-model head, importance ratios against an older policy, and a "
    "loss with five metrics over all ranks.",
    origin="xorl (importance-sampling loss for reinforcement learning)",
    parallelism=(Parallelism.DATA,),
    communication=(Communication.ALL_REDUCE,),
    block=Block.LOSS,
    stage=(Stage.TRAINING,),
    domain=Domain.RL,
    signature="solution(hidden_states: Tensor, weight: Tensor, labels: Tensor[int64], old_logprobs: Tensor, "
    "advantages: Tensor, ignore_index: int = -100) -> (Tensor, None, Tensor, Tensor, Tensor)",
    arguments=(
        Argument(
            name="hidden_states",
            shape=("M", "N"),
            values="normal, leaning toward the label's row of the head; different on every rank",
        ),
        Argument(name="weight", shape=("V", "N"), values="normal over sqrt(N), different on every rank"),
        Argument(
            name="labels",
            shape=("M",),
            dtype="int64",
            values="uniform; in timed calls 5 to 55 %, on each rank another share, are ignore_index",
        ),
        Argument(
            name="old_logprobs",
            shape=("M",),
            values="the log-probability of the label plus normal noise of 0.5, at most 0, in timed calls",
        ),
        Argument(
            name="advantages", shape=("M",), values="normal with a mean between 1/2 and 5/2, different on every rank"
        ),
        Argument(
            name="ignore_index", kind=ArgumentKind.INTEGER, dtype="int", values="-100 in timed calls", replicated=True
        ),
    ),
    outputs=(
        _output("loss", dtype="float32", tolerance=_tolerance(atol=0.01, rtol=0.01)),
        _output(
            "per_token_logprobs",
            shape=("M",),
            tolerance=_tolerance(atol=0.03, rtol=0.03, rms=0.02),
        ),
        _output(
            "per_token_loss",
            shape=("M",),
            tolerance=_tolerance(atol=0.03, rtol=0.08, rms=0.04),
        ),
        _output(
            "metrics",
            shape=(5,),
            dtype="float32",
            tolerance=_tolerance(atol=0.001, rtol=0.06),
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=fixed(M=96, N=64, V=512), system="a check on CPU ranks"),
        SizeName.BASE: Size(dims=fixed(M=1024, N=1024, V=32_000), system="1024 tokens per rank, 32000 words"),
        SizeName.LARGE: Size(
            dims=fixed(M=8192, N=4096, V=128_256),
            system="Llama 3.1 8B (hidden size 4096, vocabulary 128256), a batch of 8192 tokens of rollouts per rank",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="every rank",
            target="every rank",
            payload="seven scalars: four sums, a count, a minimum and a maximum",
            pattern=Communication.ALL_REDUCE,
        ),
    ),
    counted_flops=Reading(
        least=1.42,
        most=1.44,
        reason="The reference multiplies ignored tokens as well.",
    ),
    mutants_not_applicable=dict.fromkeys(
        ("squeezed_int8", "squeezed_float8"),
        "the payload is five sums; 8 bits of each err by no more than rounding the logits does",
    ),
    nothing_at=(1,),
    notes=(
        "Every rank has its own head here, as the card says; in training it is the same everywhere.",
        "In timed calls log-ratios stay far from the limits of the clamp.",
    ),
    regimes=(
        Regime(
            name="ignored_word",
            words="`ignore_index` is a word of the vocabulary, or -1; or it is long, beyond 32 bits, and a word in its "
            "lowest bits",
            settings={"ignored_word": Among(options=("first", "other", "long", "none"))},
        ),
        Regime(
            name="ratios_at_the_limit",
            words="log-ratios exceed the limit of 20",
            settings={"older_by": -40.0},
        ),
        Regime(
            name="unlikely_words",
            words="words are unlikely now, the older policy was certain of them, and the first does not count",
            settings={"words": "unlikely", "older_by": 40.0},
        ),
        Regime(
            name="impossible_words",
            words="log-probabilities are below -88.7, near which float32's exponential ends, and log-ratios are above "
            "20 or below -20",
            settings={"words": "impossible", "older_by": Among(options=("-300", "300"))},
            apart=("equal_logits",),
        ),
        Regime(
            name="one_token_counts",
            words="a single token counts on one rank",
            settings={"tokens": "one"},
            apart=("unlikely_words",),
        ),
        Regime(
            name="equal_logits",
            words="all logits of a token are equal: 128, where the exponential of float32 overflows, or -160, where it "
            "is zero",
            settings={"equal_logits": True},
            hides=True,
        ),
        Regime(
            name="negative_advantages",
            words="all tokens count, and all advantages are negative and around ten million in size",
            settings={"advantages": "negative", "tokens": "all"},
        ),
        Regime(
            name="no_advantages",
            words="all advantages are zero",
            settings={"advantages": "zero"},
            hides=True,
            narrow="nothing_where_zero",
        ),
        replace(
            other_extents(
                narrow="", M=Extent(low=32, high=320), V=Extent(low=100, high=2099), N=Extent(low=64, high=264, of=8)
            ),
            words="tensors have other extents than usual, and advantages may be around ten million or 1e-7",
            settings={"size_of_advantages": Among(options=("usual", "large", "small"))},
        ),
        Regime(
            name="many_words",
            words="there are more words than 16 bits can number, and labels are among the last",
            settings={"first_label": 65_000},
            dims={"M": 32, "N": 64, "V": Extent(low=66_000, high=140_000)},
            at_large=False,
            apart=(ALL_OTHERS,),
        ),
    ),
    invariants=(
        "Tensors are contiguous, and those of all ranks have equal shapes.",
        "`M` and `V` may be odd. `N` is a multiple of 8.",
        "Values are finite: `hidden_states` at most 160 in size, `weight` 1 and `advantages` 3e15.",
        "Logits lie between -270 and 128, and log-probabilities between -350 and 0.",
        "The world group takes part.",
        "Some token counts on every rank. Labels are `ignore_index` or words of the vocabulary.",
        "`ignore_index` is -100, -1, a word, or a number beyond 32 bits whose lowest 32 are a word.",
        "Log-probabilities of an older policy lie between -600 and 0.",
    ),
)
