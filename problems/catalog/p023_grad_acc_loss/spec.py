"""Token-weighted global loss, forward and backward scalars, described."""

from problems.spec.ranges import Among, Real, Whole
from problems.spec.schema import (
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
    fixed,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Six operations and one scalar on the wire: nothing but latency."""
    del dims
    wire = 2 * (world_size - 1) / world_size * element_bytes
    return Cost(
        flops={"fp32": 6},
        memory_bytes=6 * element_bytes + 16,
        wire_bytes=wire,
        reference_wire_bytes=wire,
        note="Scalars only: the floor is far below what any launch takes.",
    )


_TOLERANCE = Tolerance(
    atol=0.01,
    rtol=0.01,
    calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, tiny, 15 calls. Honest programs (every step in bfloat16, "
    "or one rounding) err by at most 0.0062 on 4 ranks and 0.0099 on 8, of an allowance of 0.02 for a single number. "
    "The cheapest cheats (no weights, a gradient left out) err by 0.2 and more.",
)
_COUNT = "uneven and secret, 0 on one rank; at most M*N"

PROBLEM = Problem(
    number=23,
    slug="grad_acc_loss",
    title="Token-weighted global loss, forward and backward scalars",
    summary="Mean losses of ranks with unequal token counts become one loss per token, with the gradient for each "
    "rank.",
    origin="xorl (loss normalisation for gradient accumulation)",
    parallelism=(Parallelism.DATA,),
    communication=(Communication.ALL_REDUCE,),
    block=Block.LOSS,
    stage=(Stage.TRAINING,),
    domain=Domain.LLM,
    signature="solution(loss: Tensor, local_valid_tokens: Tensor[int64], global_valid_tokens: Tensor[int64], "
    "grad_normalized_loss: Tensor, grad_loss_sum: Tensor or None = None) -> (Tensor, Tensor, Tensor)",
    arguments=(
        Argument(
            name="loss",
            values="positive, larger on ranks with more tokens; NaN or infinite on the rank without tokens; new on "
            "every rank and call",
        ),
        Argument(name="local_valid_tokens", dtype="int64", values=_COUNT),
        Argument(name="global_valid_tokens", dtype="int64", values="the sum over all ranks", replicated=True),
        Argument(name="grad_normalized_loss", values="between 1/16 and 16, of either sign, different on every rank"),
        Argument(
            name="grad_loss_sum",
            values="grad_normalized_loss / global_valid_tokens times 1/2 to 2",
        ),
    ),
    outputs=(
        Output(name="normalized_loss", shape=(), placement=Placement.REPLICATED, tolerance=_TOLERANCE),
        Output(name="loss_sum", shape=(), placement=Placement.REPLICATED, tolerance=_TOLERANCE),
        Output(name="grad_loss", shape=(), placement=Placement.PER_RANK, tolerance=_TOLERANCE),
    ),
    sizes={
        SizeName.TINY: Size(dims=fixed(M=1024, N=64), system="a check on CPU ranks"),
        SizeName.BASE: Size(dims=fixed(M=1024, N=1024), system="up to 2^20 tokens per rank"),
        SizeName.LARGE: Size(
            dims=fixed(M=131_072, N=32),
            system="Llama 3.1 8B trained on its whole context of 131072 tokens, 32 sequences per rank and step",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="every rank",
            target="every rank",
            payload="one scalar: its loss times its tokens",
            pattern=Communication.ALL_REDUCE,
        ),
    ),
    mutants_not_applicable=dict.fromkeys(
        ("squeezed_int8", "squeezed_float8"),
        "the payload is one number, which an 8-bit format with a scale of its own carries exactly",
    ),
    notes=(
        "Counts above 65504 overflow in float16; the problem is meant for bfloat16 and float32.",
        "All sizes cost the same: only token counts grow.",
    ),
    regimes=(
        Regime(
            name="last_rank_is_empty",
            words="the last rank is the one without tokens",
            settings={"who_has_tokens": "not_the_last"},
        ),
        Regime(
            name="nobody_is_empty",
            words="every rank has tokens, the busiest more than 16 bits can number",
            settings={"who_has_tokens": "all", "most_tokens": Whole(low=70_000, high=2**22)},
        ),
        Regime(
            name="one_rank_has_all",
            words="one rank has all tokens",
            settings={"who_has_tokens": "one"},
            least_world_size=3,
        ),
        Regime(
            name="few_tokens",
            words="no rank has more than a few tokens",
            settings={"most_tokens": Whole(low=1, high=4)},
        ),
        Regime(
            name="negative_losses",
            words="losses are negative, and that of the rank without tokens is minus infinity",
            settings={"losses": "negative"},
        ),
        Regime(
            name="opposite_gradients",
            words="grad_loss_sum is 0, or has the other sign than grad_normalized_loss",
            settings={"second_gradient": Among(options=("0", "-8"))},
        ),
        Regime(
            name="gradient_of_the_sum_alone",
            words="grad_normalized_loss is 0, and grad_loss_sum may be tiny or large",
            settings={"first_gradient": 0.0, "gradient_size": Real(low=2.0**-36, high=2.0**40, by_size=True)},
        ),
        Regime(
            name="single_gradient",
            words="grad_loss_sum is None, and grad_normalized_loss may be tiny or large",
            settings={"single_gradient": True, "gradient_size": Real(low=2.0**-60, high=2.0**45, by_size=True)},
        ),
    ),
    fewer_bits="A rank sends one number, and the sums may be off by a hundredth, as honest ones in bfloat16 are.",
    invariants=(
        "All tensors are scalars without dimensions.",
        "`grad_loss_sum` is None on all ranks or on none, and no other argument is None.",
        "There is at least one token in all, and a rank has at most 2^22.",
        "A rank with tokens has a finite loss, between 0.15 and 40 in size. Losses of all ranks have one sign.",
        "Only a rank without tokens has a loss that is NaN or infinite.",
        "`global_valid_tokens` is the sum of `local_valid_tokens` over the ranks.",
        "`grad_normalized_loss` is zero or between 5e-20 and 6e14 in size.",
        "`grad_loss_sum` is zero or between 1e-20 and 3e14 in size.",
        "Where neither part of `grad_loss` is zero, the second is 0.5 to 2 or -16 to -4 times the first.",
    ),
)
