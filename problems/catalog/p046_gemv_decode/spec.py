"""Vocabulary-parallel output projection for decoding, described."""

from dataclasses import replace

from problems.spec.ranges import Among, Extent, Whole
from problems.spec.regimes import (
    MANY,
    SUMMED_VALUES,
    beyond_16_bits,
    exact_products,
    long_extent,
    of_tensor,
    other_extents,
)
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
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

VOCABULARY = 128_256
HIDDEN = 16_384
"""Vocabulary and hidden size of Llama 3.1 405B (its published configuration)."""


def dims(world_size: int, *, tokens: int, hidden: int, vocab: int) -> Dims:
    """The dimensions for a vocabulary rounded up to a multiple of the world size."""
    local = -(-vocab // world_size)
    return {"num_tokens": tokens, "hidden": hidden, "local_vocab": local, "vocab": world_size * local}


_BIASES = Among(options=("negative", "positive", "usual"))
"""Signs of biases in a regime; logarithms of frequencies have one."""


def all_rows(dims: Dims, world_size: int) -> Dims:
    """The rows of all shards, for those of a rank."""
    return {**dims, "vocab": world_size * dims["local_vocab"]}


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """The weight shard is read once; the shards of the logits are exchanged."""
    tokens, hidden, local = dims["num_tokens"], dims["hidden"], dims["local_vocab"]
    received = (world_size - 1) * tokens * local * element_bytes
    return Cost(
        flops={"matmul": 2 * tokens * hidden * local},
        memory_bytes=element_bytes * (tokens * hidden + local * hidden + local + tokens * dims["vocab"]),
        wire_bytes=received,
        reference_wire_bytes=received,
        note="Every rank needs the logits of W - 1 shards; with few tokens they matter by their latency.",
    )


_OF_LONG_ROWS = Tolerance(
    atol=0.6,
    rtol=0.05,
    rms=0.08,
    calibration="2026-11-30, 2 H200, torch 2.11.0+cu130, base: in one of 309 calls (8 tokens, a hidden size of "
    "8201, 17 rows) the reference, whose bias is added within the product, erred by 0.027 rms, and 7 of "
    "272 elements by at least 0.1. Sums that are rounded to bfloat16 after every eight terms err by 0.045 "
    "rms on a CPU, and at most by 0.064 in 300 calls. Weights in 8 bits err by 0.0177 rms and pass in this "
    "regime; in other calls they are refused.",
)

PROBLEM = Problem(
    number=46,
    slug="gemv_decode",
    title="Vocabulary-parallel output projection for decoding",
    summary="Each rank multiplies the same few hidden vectors by its shard of the output embedding; the logits of all "
    "shards are gathered on every rank.",
    origin=None,
    parallelism=(Parallelism.TENSOR, Parallelism.VOCAB),
    communication=(Communication.ALL_GATHER,),
    block=Block.EMBEDDING,
    stage=(Stage.INFERENCE,),
    domain=Domain.LLM,
    signature="solution(hidden_states: Tensor, weight_shard: Tensor, bias_shard: Tensor) -> Tensor",
    arguments=(
        Argument(
            name="hidden_states",
            shape=("num_tokens", "hidden"),
            values="standard normal; the same on all ranks, new on every call",
            replicated=True,
        ),
        Argument(
            name="weight_shard",
            shape=("local_vocab", "hidden"),
            values="normal with standard deviation hidden^-1/2, times a log-normal scale per row; rows r*local_vocab "
            "to (r+1)*local_vocab - 1 of the weight, on rank r; new on every call",
        ),
        Argument(
            name="bias_shard",
            shape=("local_vocab",),
            values="standard normal; the elements that belong to the weight's rows; new on every call",
        ),
    ),
    outputs=(
        Output(
            name="logits",
            shape=("num_tokens", "vocab"),
            placement=Placement.REPLICATED,
            tolerance=Tolerance(
                atol=0.06,
                rtol=0.012,
                rms=0.0056,
                calibration="2026-11-21, torch 2.13 CPU, gloo, bfloat16. At base, 4 ranks, 3 calls. Honest programs "
                "(one rounding, two, float32 sent) err by at most 0.0055 and 0.0021 rms. The cheapest cheats (logits "
                "or weights in 8 bits, one scale per row) err by at least 0.040 and 0.0177 rms. At tiny, 2 to 8 ranks, "
                "10 calls: honest 0.0056 and 0.0024 rms, the cheats 0.023 and 0.0124 rms. 2026-11-29, H200, torch "
                "2.11: products of odd hidden sizes err by up to 0.0202 in 5 of 39,920 elements. With an atol of 0.03 "
                "one of 53,072 was at 1.09 of its limit. So atol is twice that, and the rms decides.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: dims(world_size, tokens=3, hidden=128, vocab=256 * world_size),
            system="a check on CPU ranks",
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: dims(world_size, tokens=1, hidden=1024, vocab=1024 * world_size),
            system="the card's size: one token, 1024 logits per rank",
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: dims(world_size, tokens=64, hidden=HIDDEN, vocab=VOCABULARY),
            system="Llama 3.1 405B (vocabulary 128256, hidden size 16384), tensor-parallel decoding of 64 sequences: "
            "the output projection of one step",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="rank r",
            target="every other rank",
            payload="the logits of its shard of the vocabulary",
            pattern=Communication.ALL_GATHER,
        ),
    ),
    regimes=(
        *of_tensor("weight_shard and bias_shard", *SUMMED_VALUES),
        Regime(
            name="huge_hidden",
            words="hidden_states are around ten million, beyond the range of float16, and weight_shard is smaller; or "
            "below 1e-4 in size, and weight_shard is larger; or each of their channels is one, the other or as usual",
            settings={"hidden": Among(options=("huge", "tiny", "unequal"))},
            dtypes=("bfloat16", "float32"),
            narrow="arguments_in_float16",
        ),
        Regime(
            name="zero_hidden",
            words="hidden_states, every second row of them from the first on (second_rows), or all weights are zero, "
            "so that logits are biases",
            settings={"hidden": Among(options=("zero", "second_rows", "no_weight"))},
            apart=("exact_products",),
            narrow="divides_arguments_by_the_largest",
        ),
        replace(
            other_extents(
                num_tokens=Extent(high=200),
                hidden=Extent(low=17, high=1030),
                local_vocab=Extent(low=150, high=500),
                derive=all_rows,
            ),
            words="tensors have other extents than usual, and all biases may have one sign",
            settings={"biases": _BIASES},
        ),
        replace(
            long_extent(
                "many_tokens",
                num_tokens=Extent(low=257, high=400),
                hidden=Extent(low=17, high=130),
                local_vocab=Extent(low=17, high=60),
                derive=all_rows,
                narrow="",
            ),
            words="more than 256 sequences decode together, the shards are small, and all biases may have one sign",
            settings={"biases": _BIASES},
        ),
        replace(
            long_extent(
                "long_rows",
                num_tokens=Extent(high=20),
                hidden=Extent(low=8200, high=9000),
                local_vocab=Extent(low=17, high=130),
                derive=all_rows,
            ),
            tolerances={"logits": _OF_LONG_ROWS},
        ),
        beyond_16_bits(
            "many_rows",
            num_tokens=Whole(low=2, high=4),
            hidden=Extent(low=17, high=33),
            local_vocab=MANY,
            derive=all_rows,
        ),
        exact_products(
            "logits", words="every row of weight_shard picks one element of a hidden state and biases are zero"
        ),
    ),
    invariants=(
        "Tensors are contiguous and in bfloat16.",
        "Values are at most 1e16 in size, and nonzero ones at least 1e-26.",
        "Neither the hidden size nor the number of a rank's rows need be a multiple of anything.",
        "All ranks hold as many rows of the weight.",
    ),
)
