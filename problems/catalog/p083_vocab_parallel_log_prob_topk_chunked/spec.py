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
    invariants=filters.CHUNKED_INVARIANTS,
)
