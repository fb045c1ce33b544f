"""Backward of chunked token log-probabilities under top-k/top-p, described."""

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
    """Filtering and softmax of nt / W rows of V logits; the logits read once, the gradient written once.

    Of a token, a rank has to learn which of its columns survive and the normaliser: two float32 numbers, a threshold
    and a logarithm. They depend on the other ranks' logits, and a rank that works them out for its share of the tokens
    receives the rest. The operations count a comparison sort, an order of magnitude only.
    """
    tokens, vocabulary, shard = dims["nt"], dims["V"], dims["Vl"]
    remote = (world_size - 1) / world_size
    return Cost(
        flops={"fp32": tokens / world_size * vocabulary * (log2(vocabulary) + 10)},
        memory_bytes=(element_bytes + 4) * tokens * shard + 8 * tokens + 2 * tokens,
        wire_bytes=remote * tokens * 4,
        reference_wire_bytes=remote * tokens * shard * (element_bytes + 4),
        note="Counts one float32 per foreign token; the reference exchanges whole logits and whole gradients.",
    )


PROBLEM = Problem(
    number=84,
    slug="vocab_parallel_log_prob_topk_chunked_backward",
    title="Backward of chunked top-k/top-p token log-probabilities with vocabulary-parallel logits",
    summary="Gradient of filtered log-probabilities with respect to logits split over the vocabulary.",
    origin="NVIDIA NeMo-RL (chunked distributed log-probabilities with sampling filters, backward)",
    parallelism=(Parallelism.TENSOR, Parallelism.VOCAB, Parallelism.SEQUENCE),
    communication=(Communication.ALL_TO_ALL,),
    block=Block.LOSS,
    stage=(Stage.TRAINING,),
    domain=Domain.RL,
    signature=(
        "solution(vocab_parallel_logits: Tensor, target: Tensor, grad_output: Tensor, "
        "tp_group: Optional[ProcessGroup] = None, "
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
            "times any column; about half are filtered out, so that their gradient is zero",
            replicated=True,
        ),
        Argument(
            name="grad_output",
            shape=("B", "S"),
            dtype="bfloat16",
            values="normal, times a size of the token's own between 1/2 and 2",
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
            name="grad_logits",
            shape=("B", "S", "Vl"),
            dtype="float32",
            placement=Placement.SHARDED,
            sharding="rank r holds columns r*Vl to (r+1)*Vl - 1 of the vocabulary",
            tolerance=Tolerance(
                atol=3e-5,
                rtol=3e-5,
                rms=1e-5,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, tiny, 2 and 4 ranks, 6 calls: honest "
                "programs (float32 throughout, one chunk, every rank all tokens) err by at most 3e-7 and 9e-8 rms, "
                "the cheapest cheat (gradient rounded to bfloat16) by at least 2.8e-3 and 1.5e-3 rms.",
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
            source="the rank that owns the tokens",
            target="every rank",
            payload="that rank's Vl columns of the gradient, in float32",
            pattern=Communication.ALL_TO_ALL,
        ),
    ),
    notes=(
        "Cumulative probabilities keep a distance of 0.01 from the top-p threshold, so that rounding decides nothing.",
        "The result does not depend on the chunk size; it bounds what the baseline holds at a time.",
        "On 8 ranks the base size has a single chunk.",
        "A target that the filters remove gets a gradient of zero, like every removed column.",
    ),
)
