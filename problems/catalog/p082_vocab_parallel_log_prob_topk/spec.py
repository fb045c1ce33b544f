"""Token log-probabilities under top-k/top-p from vocabulary-parallel logits, described."""

from math import log2

from problems.schema import (
    Argument,
    ArgumentKind,
    Cost,
    Dims,
    Hop,
    Output,
    Placement,
    Problem,
    Size,
    SizeName,
    Tolerance,
)
from problems.taxonomy import Block, Communication, Domain, Parallelism, Stage

CARD_VOCABULARY = 256
LLAMA_VOCABULARY = 128256
"""Vocabulary of Llama 3.1 (its published configuration)."""


def sized(*, batch: int, tokens: int, vocabulary: int, world_size: int) -> Dims:
    """Dimensions for about `tokens` tokens per sequence, rounded up to a multiple of the world size."""
    sequence = -(-tokens // world_size) * world_size
    return {
        "B": batch,
        "S": sequence,
        "V": vocabulary,
        "Vl": vocabulary // world_size,
        "nt": batch * sequence,
    }


def tiny(world_size: int) -> Dims:
    """Enough tokens to meet every kind of target."""
    return sized(batch=2, tokens=32, vocabulary=CARD_VOCABULARY, world_size=world_size)


def base(world_size: int) -> Dims:
    """The card's formulas at M = N = 1024: B = max(1, min(M // 512, 4)), S from max(W, min(M // 128, 32))."""
    return sized(batch=2, tokens=max(world_size, 8), vocabulary=CARD_VOCABULARY, world_size=world_size)


def large(world_size: int) -> Dims:
    """One micro-batch of GRPO on Llama 3.1."""
    return sized(batch=1, tokens=4096, vocabulary=LLAMA_VOCABULARY, world_size=world_size)


def divides_vocabularies(world_size: int) -> str | None:
    """Refuse world sizes that do not divide both vocabularies."""
    if world_size < 2 or CARD_VOCABULARY % world_size or LLAMA_VOCABULARY % world_size:
        return f"needs at least 2 ranks, a divisor of {CARD_VOCABULARY} and {LLAMA_VOCABULARY}; got {world_size}"
    return None


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Filtering and log-softmax of nt / W rows of V logits; the logits read once.

    The filters depend on few numbers per token and rank (its largest logits, or a maximum and a sum of exponentials),
    so the logits themselves need not travel. What must arrive at every rank are the results of the other ranks'
    tokens, in float32. The operations count a comparison sort, an order of magnitude only.
    """
    tokens, vocabulary, shard = dims["nt"], dims["V"], dims["Vl"]
    remote = (world_size - 1) / world_size
    results = remote * tokens * 4
    return Cost(
        flops={"fp32": tokens / world_size * vocabulary * (log2(vocabulary) + 8)},
        memory_bytes=element_bytes * tokens * shard + 8 * tokens + 4 * tokens,
        wire_bytes=results,
        reference_wire_bytes=remote * tokens * shard * element_bytes + results,
        note="The reference exchanges whole logits; a few candidates per token and rank are enough.",
    )


PROBLEM = Problem(
    number=82,
    slug="vocab_parallel_log_prob_topk",
    title="Token log-probabilities under top-k/top-p from vocabulary-parallel logits",
    summary="Log-probability of given tokens under the filtered distribution, the logits split over the vocabulary.",
    origin="NVIDIA NeMo-RL (distributed log-probabilities with sampling filters)",
    parallelism=(Parallelism.TENSOR, Parallelism.VOCAB, Parallelism.SEQUENCE),
    communication=(Communication.ALL_TO_ALL, Communication.ALL_GATHER),
    block=Block.LOSS,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.RL,
    signature=(
        "solution(vocab_parallel_logits: Tensor, target: Tensor, tp_group: Optional[ProcessGroup] = None, "
        "top_k: Optional[int] = None, top_p: float = 1.0) -> Tensor"
    ),
    arguments=(
        Argument(
            name="vocab_parallel_logits",
            shape=("B", "S", "Vl"),
            values="normal and low in all columns but 16 per token, which lie around 2 and hold all but a thousandth "
            "of the mass; these columns and their logits are drawn anew on every call",
        ),
        Argument(
            name="target",
            shape=("B", "S"),
            dtype="int64",
            values="of each token one of its 16 leading columns, the most probable ones preferred, or one in eight "
            "times any column; about half are filtered out, so that their log-probability is minus infinity",
            replicated=True,
        ),
        Argument(name="tp_group", kind=ArgumentKind.GROUP, values="None: the world group"),
        Argument(name="top_k", kind=ArgumentKind.INTEGER, values="10; None in one call of eight"),
        Argument(name="top_p", kind=ArgumentKind.REAL, values="0.9; 1.0 in one call of eight"),
    ),
    outputs=(
        Output(
            name="token_logprobs",
            shape=("B", "S"),
            dtype="float32",
            placement=Placement.REPLICATED,
            tolerance=Tolerance(
                atol=3e-5,
                rtol=3e-5,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, tiny, 2 to 8 ranks, 10 calls: honest "
                "programs (float32 throughout, every rank all tokens, candidates only) err by at most 1.5e-7, the "
                "cheapest cheat (logits and results through int8, one scale per row) by at least 7e-3. A target "
                "filtered on one side only is infinitely wrong, so a bound on the rms would add nothing.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=tiny, system="a smoke test on CPU ranks"),
        SizeName.BASE: Size(dims=base, system="the card's size"),
        SizeName.LARGE: Size(
            dims=large,
            system="Llama 3.1 (vocabulary 128256) in GRPO post-training: one micro-batch of 4096 tokens",
        ),
    },
    cost=cost,
    refuses_world_size=divides_vocabularies,
    world_size_rule="a power of two up to 256",
    hops=(
        Hop(
            source="every rank",
            target="the rank that owns the tokens",
            payload="its Vl logits of each of those nt / W tokens",
            pattern=Communication.ALL_TO_ALL,
        ),
        Hop(
            source="every rank",
            target="every rank",
            payload="nt / W log-probabilities in float32",
            pattern=Communication.ALL_GATHER,
        ),
    ),
    notes=(
        "Cumulative probabilities keep a distance of 0.01 from the top-p threshold, so that rounding decides nothing.",
        "Minus infinity is the right answer for a target that the filters remove.",
    ),
)
