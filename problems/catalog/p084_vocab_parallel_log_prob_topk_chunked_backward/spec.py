"""Backward of chunked token log-probabilities under top-k/top-p, described."""

from dataclasses import replace

from problems.families import sampling_filters_spec as filters
from problems.spec.ranges import Real
from problems.spec.schema import Argument, Cost, Dims, Hop, Output, Placement, Problem, Regime, Tolerance
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

_OF_LONG_ROWS = Tolerance(
    atol=3e-5,
    rtol=3e-5,
    rms=1e-4,
    calibration="2026-11-30, CPU, torch 2.13, gloo, bfloat16, 2 ranks: float32 sums over 80,000 words err by up to "
    "1.7e-5 rms where tokens are few.",
)


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Filtering and softmax of the tokens; every logit is read and compared once, its gradient written once.

    Of a token, a rank has to learn which of its columns survive and the normaliser: two float32 numbers, a threshold
    and a logarithm. They depend on the other ranks' logits, and a rank that works them out for its share of the tokens
    receives the rest. Nothing has to be sorted: few logits are above the threshold.
    """
    tokens, shard = dims["nt"], dims["Vl"]
    remote = (world_size - 1) / world_size
    return Cost(
        flops={"fp32": tokens * shard},
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
        *filters.logits_and_target(removed="their gradient is zero"),
        Argument(
            name="grad_output",
            shape=("B", "S"),
            dtype="bfloat16",
            values="normal, times a size of the token's own between 1/2 and 2",
            replicated=True,
        ),
        *filters.FILTERS,
        filters.CHUNK_SIZE,
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
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, tiny, 2 and 4 ranks, 6 calls. Honest "
                "programs (float32 throughout, one chunk, every rank all tokens) err by at most 3e-7 and 9e-8 rms. The "
                "cheapest cheat (gradient rounded to bfloat16) errs by at least 2.8e-3 and 1.5e-3 rms.",
            ),
        ),
    ),
    sizes=filters.chunked_sizes(),
    cost=cost,
    refuses_world_size=filters.divides_vocabularies,
    world_size_rule=filters.WORLD_SIZE_RULE,
    hops=(
        filters.CHUNK_OF_LOGITS,
        Hop(
            source="the rank that owns the tokens",
            target="every rank",
            payload="that rank's Vl columns of the gradient, in float32",
            pattern=Communication.ALL_TO_ALL,
        ),
    ),
    notes=(
        filters.MARGIN_NOTE,
        *filters.CHUNK_NOTES,
        "A target that the filters remove gets a gradient of zero, like every removed column.",
    ),
    regimes=(
        *filters.REGIMES,
        *filters.CHUNKS,
        replace(filters.OTHER_EXTENTS, tolerances={"grad_logits": _OF_LONG_ROWS}),
        filters.NUCLEUS_OF_A_SHARD,
        filters.MANY_EQUAL_WORDS,
        Regime(
            name="other_gradients",
            words="`grad_output` is so many times as large as usual",
            settings={"gradients": Real(low=1e-7, high=1e6, by_size=True)},
        ),
    ),
    invariants=(
        *filters.CHUNKED_INVARIANTS,
        "`grad_output` is at most 1e7 in size, and its root mean square over all tokens is 1e-10 at least.",
    ),
)
