"""Token log-probabilities under top-k/top-p from vocabulary-parallel logits, described."""

from problems.families import sampling_filters_spec as filters
from problems.spec.schema import Axis, Dims, Hop, Output, Placement, Problem, Size, SizeName, Tolerance
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage


def large(world_size: int) -> Dims:
    """One micro-batch of GRPO on Llama 3.1."""
    return filters.sized(batch=1, tokens=4096, vocabulary=filters.LLAMA_VOCABULARY, world_size=world_size)


def of_tokens(_axis: Axis, dims: Dims, value: int, world_size: int) -> Dims:
    """One sequence; with the vocabulary of the published sweep where ranks have GPUs."""
    vocabulary = filters.CARD_VOCABULARY if dims == filters.tiny(world_size) else 32_000
    return filters.sized(batch=1, tokens=value, vocabulary=vocabulary, world_size=world_size)


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
        *filters.logits_and_target(removed="their log-probability is minus infinity"),
        *filters.FILTERS,
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
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, tiny, 2 to 8 ranks, 10 calls. Honest "
                "programs (float32 throughout, every rank all tokens, candidates only) err by at most 1.5e-7. The "
                "cheapest cheat (logits and results through int8, one scale per row) errs by at least 7e-3. A target "
                "filtered on one side only is infinitely wrong, so a bound on the rms would add nothing.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=filters.tiny, system="a smoke test on CPU ranks"),
        SizeName.BASE: Size(dims=filters.base, system="the card's size"),
        SizeName.LARGE: Size(
            dims=large,
            system="Llama 3.1 (vocabulary 128256) in GRPO post-training: one micro-batch of 4096 tokens",
        ),
    },
    cost=filters.log_prob_cost,
    refuses_world_size=filters.divides_vocabularies,
    world_size_rule=filters.WORLD_SIZE_RULE,
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
        filters.MARGIN_NOTE,
        "Minus infinity is the right answer for a target that the filters remove.",
    ),
    regimes=(*filters.REGIMES, filters.NUCLEUS_OF_A_SHARD, filters.OTHER_TOKENS),
    invariants=filters.INVARIANTS,
    axes=(
        Axis(
            name="sequence length",
            symbol="S",
            unit="tokens",
            values={SizeName.TINY: (16, 32, 64, 128), SizeName.BASE: (1024, 2048, 4096, 8192, 16_384)},
            fixed="one sequence, a vocabulary of 32,000 (256 on CPU ranks), top-k 10, top-p 0.9",
            dims=of_tokens,
        ),
    ),
)
