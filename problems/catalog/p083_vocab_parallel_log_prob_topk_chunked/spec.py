"""Chunked token log-probabilities under top-k/top-p from vocabulary-parallel logits, described."""

from problems.families import sampling_filters_spec as filters
from problems.spec.schema import Hop, Output, Placement, Problem, Tolerance
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

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
        *filters.logits_and_target(removed="their log-probability is minus infinity"),
        *filters.FILTERS,
        filters.CHUNK_SIZE,
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
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, tiny, 2 and 4 ranks, 4 calls. Honest "
                "programs (float32 throughout, one chunk, every rank all tokens) err by at most 6.5e-8. The cheapest "
                "cheat (logits and results through int8, one scale per row) errs by at least 1e-2. A target filtered "
                "on one side only is infinitely wrong, so a bound on the rms would add nothing.",
            ),
        ),
    ),
    sizes=filters.chunked_sizes(),
    cost=filters.log_prob_cost,
    refuses_world_size=filters.divides_vocabularies,
    world_size_rule=filters.WORLD_SIZE_RULE,
    hops=(
        filters.CHUNK_OF_LOGITS,
        Hop(
            source="every rank",
            target="every rank",
            payload="the chunk's log-probabilities in float32",
            pattern=Communication.ALL_GATHER,
        ),
    ),
    notes=(
        filters.MARGIN_NOTE,
        *filters.CHUNK_NOTES,
        "Minus infinity is the right answer for a target that the filters remove.",
    ),
    regimes=(
        *filters.REGIMES,
        *filters.CHUNKS,
        filters.OTHER_EXTENTS,
        filters.NUCLEUS_OF_A_SHARD,
        filters.MANY_EQUAL_WORDS,
    ),
    invariants=(
        "Tensors are contiguous.",
        "`tp_group` is None, the world group.",
        f"`top_k` is None or from 1 to 10, and `top_p` is 1 or a number from {filters.LEAST_P} to {filters.MOST_P}.",
        "The largest logit of a token is between -195 and 195; others may be lower, to about -1e32, or minus infinity.",
        "No logit is NaN, and at least 16 of a token are finite.",
        "Where nothing is filtered (`top_k` is None and `top_p` is 1), logits are at most 35 below a token's largest.",
        "Where `top_p` is below 1, it leaves at most 256 words of a token.",
        "Cumulative probabilities keep 0.009 away from 1 - `top_p`, or 9 % of it or of `top_p` where that is less.",
        "Where `top_p` removes something, equal logits stay or go together.",
        "Equal logits at the `top_k`-th largest may be any number, up to the whole vocabulary; 0.0 and -0.0 are equal.",
        "Every rank has as many words, perhaps an odd number, and the number of ranks divides the tokens. B is 1 or 2.",
        "`chunk_size` is 0 to 2 S + W, and the number of ranks divides the tokens of every chunk.",
    ),
)
