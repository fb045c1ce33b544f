"""MoE dispatch bookkeeping (token counts per rank and expert), described."""

from problems.spec.ranges import Among, Extent, Whole
from problems.spec.regimes import other_extents
from problems.spec.schema import (
    EXACT,
    WORLD_GROUP,
    Argument,
    ArgumentKind,
    Cost,
    Dims,
    Hop,
    Output,
    Placement,
    Problem,
    Regime,
    Size,
    SizeName,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage
from problems.spec.world_sizes import divisors_of


def _dims(world_size: int, *, experts: int, topk: int, tokens: int) -> Dims:
    return {"E": experts, "topk": topk, "M": tokens, "W": world_size, "E_local": experts // world_size}


def _owned(dims: Dims, world_size: int) -> Dims:
    return {**dims, "E_local": dims["E"] // world_size}


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Half of the mask is read; a rank needs the counts of its own experts from every peer.

    It is one-hot over the experts: whoever reads on until the one need not read the rest, half of them on average.
    """
    del element_bytes
    mask = dims["E"] * dims["topk"] * dims["M"] / 2
    return Cost(
        flops={"fp32": mask},
        memory_bytes=4 * mask + 16 * world_size + 4 * dims["E"] + 4 * dims["E_local"],
        wire_bytes=(world_size - 1) * dims["E_local"] * 4,
        reference_wire_bytes=(world_size - 1) * dims["E"] * 4,
        note="The reference gathers the counts of all experts; a rank needs those of its own.",
    )


def _output(name: str, shape: tuple[str, ...], dtype: str) -> Output:
    return Output(name=name, shape=shape, dtype=dtype, placement=Placement.PER_RANK, tolerance=EXACT, on_host=True)


PROBLEM = Problem(
    number=26,
    slug="moe_token_preprocess",
    title="MoE dispatch bookkeeping (token counts per rank and expert)",
    summary="From a routing mask: how many rows go to and come from every rank, and how many reach each local expert.",
    origin="VeOmni (expert-parallel preprocessing, after Megatron-LM's token dispatcher)",
    parallelism=(Parallelism.EXPERT,),
    communication=(Communication.ALL_GATHER,),
    block=Block.MOE,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.MOE_LLM,
    signature="solution(expert_mask: Tensor[float32], num_experts: int, group: ProcessGroup or None = None) -> "
    "(Tensor[int64], Tensor[int64], Tensor[float32], Tensor[float32])",
    arguments=(
        Argument(
            name="expert_mask",
            shape=("E", "topk", "M"),
            dtype="float32",
            values="one-hot over experts, drawn with preferences of the rank's own; a token may name an expert twice. "
            "Not contiguous in timed calls: strides (1, E, E*topk)",
        ),
        Argument(
            name="num_experts", kind=ArgumentKind.INTEGER, dtype="int", values="E: 8; 256 at large", replicated=True
        ),
        WORLD_GROUP,
    ),
    outputs=(
        _output("input_splits", ("W",), "int64"),
        _output("output_splits", ("W",), "int64"),
        _output("num_global_tokens_per_local_expert", ("W", "E_local"), "float32"),
        _output("num_global_sum_tokens_per_local_expert", ("E_local",), "float32"),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: _dims(world_size, experts=8, topk=2, tokens=300), system="a check on CPU ranks"
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: _dims(world_size, experts=8, topk=2, tokens=1024),
            system="1024 tokens per rank, two of 8 experts each",
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: _dims(world_size, experts=256, topk=8, tokens=32_768),
            system="DeepSeek-V3 (256 routed experts, 8 per token) with 32768 tokens per rank",
        ),
    },
    cost=cost,
    refuses_world_size=divisors_of(8, needs="a world size that divides 8 experts"),
    world_size_rule="2, 4 or 8: a divisor of the number of experts",
    hops=(
        Hop(
            source="every rank",
            target="every rank",
            payload="how many of its slots name each of the target's experts",
            pattern=Communication.ALL_GATHER,
        ),
    ),
    regimes=(
        Regime(name="other_choices", words="tokens have another number of slots", dims={"topk": Whole(low=1, high=8)}),
        Regime(name="one_token", words="every rank has one token", dims={"M": 1}),
        Regime(
            name="all_to_one", words="all slots of all ranks name experts of one rank", settings={"slots": "on_one"}
        ),
        Regime(
            name="one_expert",
            words="every token of all ranks has seven slots, which name one expert, more often than 16 bits can count, "
            "or these with a sign",
            settings={"slots": "on_one_expert"},
            hides=True,
            dims={"topk": 7, "M": Among(options=("4682", "9363", "66001"))},
        ),
        Regime(name="one_gets_nothing", words="no slot names an expert of one rank", settings={"slots": "elsewhere"}),
        other_extents(derive=_owned, E=Extent(low=8, high=512, of=8), M=Extent(low=1, high=300)),
        Regime(
            name="contiguous_mask",
            words="expert_mask is contiguous, and the number of tokens is odd",
            settings={"contiguous": True},
            dims={
                "topk": Among(options=("1", "3", "8")),
                "M": Among(options=("1", "301", "599")),
                "E": Extent(low=8, high=512, of=8),
            },
            derive=_owned,
        ),
    ),
    invariants=(
        "`expert_mask` is contiguous or has the strides of timed calls.",
        "Every slot names exactly one expert, and a token has one to eight slots.",
        "All ranks have equally many tokens, whose number may be odd.",
        "`num_experts` is the first extent of the mask: a multiple of 8, and at most 512.",
        "Counts may exceed 16 bits. None reaches 2^22, so that float32 holds all of them.",
        "`group` is None, the world group.",
    ),
)
