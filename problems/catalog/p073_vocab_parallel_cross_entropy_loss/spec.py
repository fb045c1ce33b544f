"""Vocabulary-parallel cross entropy, described."""

from collections.abc import Callable
from dataclasses import replace

from problems.spec.ranges import Among, Extent
from problems.spec.regimes import HUGE_VALUES, MANY, ZERO_VALUES, beyond_16_bits, long_extent, other_extents
from problems.spec.schema import (
    WORLD_GROUP,
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


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Every logit is read once; per token a maximum, a sum and a target logit have to be known everywhere.

    Each rank can fold its shard into one number, the logarithm of its sum of exponentials. It goes in float32 to the
    rank that holds the target's logit, which returns the loss in the run's dtype to all.
    """
    tokens = dims["B"] * dims["S"]
    remote = (world_size - 1) / world_size * tokens
    return Cost(
        flops={"fp32": 4 * tokens * dims["Vl"]},
        memory_bytes=element_bytes * tokens * dims["Vl"] + 8 * tokens + element_bytes * tokens,
        wire_bytes=remote * (4 + min(4, element_bytes)),
        reference_wire_bytes=3 * 2 * remote * 2 * element_bytes,
        note="The reference all-reduces three float32 statistics of every token.",
    )


def _sharded(*, B: int, S: int, V: int) -> Callable[[int], Dims]:
    return lambda world_size: {"B": B, "S": S, "V": V, "Vl": V // world_size}


def _all_words(dims: Dims, world_size: int) -> Dims:
    """The vocabulary of all ranks, where a rank has another part of it than usual."""
    return {**dims, "V": dims["Vl"] * world_size}


CERTAIN = Tolerance(
    atol=0.1,
    rtol=0.1,
    rms=0.1,
    calibration="losses of 0.1 to 3, which come of 1 and little more: bfloat16 rounds that to 1/128, where every step "
    "is rounded. What leaves the words out that lie 10 below the largest has no loss at all.",
)
"""Of calls whose targets are certain."""


PROBLEM = Problem(
    number=73,
    slug="vocab_parallel_cross_entropy_loss",
    title="Vocabulary-parallel cross entropy",
    summary="Per-token cross entropy where the vocabulary dimension of the logits is sharded over the ranks.",
    origin="Megatron-LM (vocab-parallel cross entropy)",
    parallelism=(Parallelism.TENSOR, Parallelism.VOCAB),
    communication=(Communication.ALL_REDUCE,),
    block=Block.LOSS,
    stage=(Stage.TRAINING,),
    domain=Domain.LLM,
    signature="solution(vocab_parallel_logits: Tensor, target: Tensor, group: Optional[ProcessGroup] = None) -> Tensor",
    arguments=(
        Argument(
            name="vocab_parallel_logits",
            shape=("B", "S", "Vl"),
            values="normal around an offset per token between -120 and 120, with a log-normal spread per "
            "token (median 3); columns r*Vl to (r+1)*Vl - 1 of the vocabulary",
            scratch=True,
        ),
        Argument(
            name="target",
            shape=("B", "S"),
            dtype="int64",
            values="uniform over the vocabulary, secret, the same on all ranks",
            replicated=True,
        ),
        WORLD_GROUP,
    ),
    outputs=(
        Output(
            name="loss",
            shape=("B", "S"),
            placement=Placement.REPLICATED,
            tolerance=Tolerance(
                atol=0.01,
                rtol=0.01,
                rms=0.006,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, 2 and 4 ranks, tiny. Honest programs (every "
                "step rounded, float32 throughout, merged log-sum-exps) err by at most 0.0036 and 0.0024 rms. The "
                "cheapest cheat (8-bit statistics) errs by at least 0.015 rms.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=_sharded(B=2, S=256, V=256), system="a check on CPU ranks"),
        SizeName.BASE: Size(dims=_sharded(B=8, S=1024, V=512), system="8192 tokens over a small vocabulary"),
        SizeName.LARGE: Size(
            dims=_sharded(B=1, S=8192, V=128_256),
            system="Llama 3.1 (vocabulary 128256) trained on one sequence of 8192 tokens",
        ),
    },
    cost=cost,
    refuses_world_size=divisors_of(
        128, needs="at least 2 ranks, as many as divide the vocabulary (powers of two up to 128)"
    ),
    world_size_rule="powers of two from 2 to 128",
    hops=(
        Hop(
            source="every rank",
            target="every rank",
            payload="per token: maximum, sum of exponentials, target logit",
            pattern=Communication.ALL_REDUCE,
        ),
    ),
    notes=("The logits may be overwritten: nobody looks at them after the call.",),
    regimes=(
        Regime(
            name="targets_on_one_rank",
            words="the targets of all tokens are in one rank's part of the vocabulary",
            settings={"targets": "on_one"},
        ),
        Regime(
            name="masked_words",
            words="the logits of one rank's words are minus infinity, and for many tokens those of its neighbours too",
            settings={"targets": "not_on_one"},
        ),
        Regime(
            name="half_masked",
            words="the logits of the first half of every rank's words are minus infinity",
            settings={"targets": "second_halves"},
        ),
        Regime(
            name="odd_tokens",
            words="there is one sequence of 299 tokens, which divide among no number of ranks",
            dims={"B": 1, "S": 299},
        ),
        Regime(
            name="certain_targets",
            words="all words but the target lie 10 to 12.5 below it, and are so many that they make the loss",
            settings={"targets": "certain"},
            dims={"B": 1, "S": 104, "Vl": 16_384},
            derive=_all_words,
            tolerances={"loss": CERTAIN},
            apart=("huge_values",),
        ),
        replace(
            HUGE_VALUES,
            words="values are of ten million to a million million, beyond the range of float16",
            # A single token's target may be one of two largest words: its loss is then far smaller than logits are.
            apart=("long_vocabulary",),
        ),
        ZERO_VALUES,
        # So many tokens that not all losses are near zero, where rounding in bfloat16 is more than a hundredth of them.
        other_extents(B=Extent(high=6), S=Extent(low=8, high=300), Vl=Extent(low=2, high=230), derive=_all_words),
        replace(
            long_extent("long_vocabulary", B=1, S=Extent(high=40), Vl=Extent(low=1025, high=70_000), derive=_all_words),
            words="one extent is long, and the others are short; where rows are flat, logits are from 80 to 87: no "
            "exponential overflows float32, but their sum would",
            settings={"rows": Among(options=("flat", "usual"))},
        ),
        beyond_16_bits("many_tokens", B=1, S=MANY, Vl=Extent(low=2, high=9), derive=_all_words),
    ),
    invariants=(
        "Tensors are contiguous.",
        "Logits are minus infinity, or at most 9e11 in size.",
        "Where logits are beyond 1e4 in size, losses reach 1e6: maximum and logarithm may be added in float32 first.",
        "`group` is None, the world group.",
        "Targets are words of the vocabulary whose logits are finite.",
        "The vocabulary is a multiple of the world size, and each rank has at least two words, perhaps an odd number.",
    ),
)
