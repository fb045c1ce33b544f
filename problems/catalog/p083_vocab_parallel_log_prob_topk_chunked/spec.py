"""Chunked token log-probabilities under top-k/top-p from vocabulary-parallel logits, described."""

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


def sized(*, batch: int, tokens: int, chunk: int, vocabulary: int, world_size: int) -> Dims:
    """Dimensions for `tokens` positions per row and chunks of `chunk`, both rounded up to multiples of the ranks."""
    sequence = -(-tokens // world_size) * world_size
    return {
        "B": batch,
        "S": sequence,
        "V": vocabulary,
        "Vl": vocabulary // world_size,
        "nt": batch * sequence,
        "cs": min(-(-chunk // world_size) * world_size, sequence),
    }


def tiny(world_size: int) -> Dims:
    """Enough tokens to meet every kind of target; on up to 4 ranks three chunks, the last shorter."""
    return sized(batch=2, tokens=32, chunk=12, vocabulary=CARD_VOCABULARY, world_size=world_size)


def base(world_size: int) -> Dims:
    """The card's formulas at M = N = 1024: B = max(1, min(M // 512, 4)), S from max(W, min(M // 128, 32))."""
    tokens = max(world_size, 8)
    chunk = max(world_size, tokens // 4)
    return sized(batch=2, tokens=tokens, chunk=chunk, vocabulary=CARD_VOCABULARY, world_size=world_size)


def large(world_size: int) -> Dims:
    """Eight sequences of 4096 tokens on Llama 3.1, four chunks."""
    return sized(batch=8, tokens=4096, chunk=1024, vocabulary=LLAMA_VOCABULARY, world_size=world_size)


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
    number=83,
    slug="vocab_parallel_log_prob_topk_chunked",
    title="Chunked token log-probabilities under top-k/top-p from vocabulary-parallel logits",
    summary="Log-probability of given tokens under the filtered distribution, in chunks that bound the memory.",
    origin="NVIDIA NeMo-RL (chunked distributed log-probabilities with sampling filters)",
    parallelism=(Parallelism.TENSOR, Parallelism.VOCAB, Parallelism.SEQUENCE),
    communication=(Communication.ALL_TO_ALL, Communication.ALL_GATHER),
    block=Block.LOSS,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.RL,
    signature=(
        "solution(vocab_parallel_logits: Tensor, target: Tensor, tp_group: Optional[ProcessGroup] = None, "
        "top_k: Optional[int] = None, top_p: float = 1.0, chunk_size: int = 1) -> Tensor"
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
        Argument(
            name="chunk_size",
            kind=ArgumentKind.INTEGER,
            values="tokens of a chunk divided by B; several chunks except at the base size on 8 ranks",
        ),
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
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, tiny, 2 and 4 ranks, 4 calls: honest "
                "programs (float32 throughout, one chunk, every rank all tokens) err by at most 6.5e-8, the "
                "cheapest cheat (logits and results through int8, one scale per row) by at least 1e-2. A target "
                "filtered on one side only is infinitely wrong, so a bound on the rms would add nothing.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=tiny, system="a smoke test on CPU ranks"),
        SizeName.BASE: Size(dims=base, system="the card's size"),
        SizeName.LARGE: Size(
            dims=large,
            system="Llama 3.1 (vocabulary 128256) in GRPO post-training: 8 sequences of 4096 "
            "tokens, in chunks of 8192 tokens",
        ),
    },
    cost=cost,
    refuses_world_size=divides_vocabularies,
    world_size_rule="a power of two up to 256",
    hops=(
        Hop(
            source="every rank",
            target="the rank that owns the tokens",
            payload="its Vl logits of each of those tokens, chunk by chunk",
            pattern=Communication.ALL_TO_ALL,
        ),
        Hop(
            source="every rank",
            target="every rank",
            payload="the chunk's log-probabilities in float32",
            pattern=Communication.ALL_GATHER,
        ),
    ),
    notes=(
        "Cumulative probabilities keep a distance of 0.01 from the top-p threshold, so that rounding decides nothing.",
        "The result does not depend on the chunk size; it bounds what the baseline holds at a time.",
        "On 8 ranks the base size has a single chunk.",
        "Minus infinity is the right answer for a target that the filters remove.",
    ),
)
