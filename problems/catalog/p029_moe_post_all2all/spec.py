"""MoE combine (regroup by source, all-to-all, weighted unpermute), described."""

from problems.spec.ranges import Among, Extent, Whole
from problems.spec.regimes import SUMMED_VALUES, of_tensor
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
    Reading,
    Regime,
    Size,
    SizeName,
    Tolerance,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage
from problems.spec.world_sizes import divisors_of


def _size(*, tokens: int, width: int, experts: int, topk: int, system: str) -> Size:
    def dims(world_size: int) -> Dims:
        local = experts // world_size
        own = {"M": tokens, "N": width, "E": experts, "topk": topk}
        return own | {"T": topk * tokens, "W": world_size, "E_local": local}

    return Size(dims=dims, system=system)


def _routed(dims: Dims, world_size: int) -> Dims:
    topk = min(dims["topk"], dims["E"] // 2)
    return {**dims, "topk": topk, "T": topk * dims["M"], "E_local": dims["E"] // world_size}


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Expert outputs and routing are read once, the sums written once; as many rows leave a rank as arrive."""
    rows = dims["T"] * dims["N"]
    wire = (world_size - 1) / world_size * rows * element_bytes
    return Cost(
        flops={"fp32": 2 * rows},
        memory_bytes=element_bytes * (rows + dims["M"] * (dims["N"] + dims["topk"]))
        + 8 * dims["topk"] * dims["M"]
        + dims["E"] * dims["M"]
        + 8 * dims["T"],
        wire_bytes=wire / min(dims["topk"], dims["E_local"]),
        reference_wire_bytes=wire,
        note="Mean over routings. Rows for one token from experts of one rank can be weighted and added there (the "
        "weights have to be sent first), which is counted as if it always happened.",
    )


_SPLITS = "uneven and secret, new on every call and different on every rank; they add up to T"


def _integers(name: str, values: str) -> Argument:
    return Argument(name=name, kind=ArgumentKind.INTEGERS, shape=("W",), dtype="int", values=values)


PROBLEM = Problem(
    number=29,
    slug="moe_post_all2all",
    title="MoE combine (regroup by source, all-to-all, weighted unpermute)",
    summary="Expert outputs return to the ranks that own the tokens, are weighted and added up per token.",
    origin="VeOmni (expert-parallel combine, after Megatron-LM's token dispatcher)",
    parallelism=(Parallelism.EXPERT,),
    communication=(Communication.ALL_TO_ALL_V,),
    block=Block.MOE,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.MOE_LLM,
    signature="solution(expert_outputs: Tensor, routing_weights: Tensor, selected_experts: Tensor[int64], "
    "num_experts: int, input_splits: list[int] or Tensor, output_splits: list[int] or Tensor, "
    "num_global_tokens_per_local_expert: Tensor[int64], routing_map: Tensor[bool], "
    "local_input_permutation_mapping: Tensor[int64], org_hidden_states_shape: torch.Size, "
    "group: ProcessGroup or None = None) -> Tensor",
    arguments=(
        Argument(
            name="expert_outputs",
            shape=("T", "N"),
            values="normal with a log-normal scale per element, different on every rank; grouped by local expert, then "
            "by source",
        ),
        Argument(name="routing_weights", shape=("M", "topk"), values="softmax of normal numbers over the slots"),
        Argument(
            name="selected_experts",
            shape=("M", "topk"),
            dtype="int64",
            values="the different experts of every token, ascending",
        ),
        Argument(
            name="num_experts", kind=ArgumentKind.INTEGER, dtype="int", values="E: 8; 256 at large", replicated=True
        ),
        _integers("input_splits", _SPLITS),
        _integers("output_splits", "how many of this rank's expert outputs belong to each rank"),
        Argument(
            name="num_global_tokens_per_local_expert",
            shape=("W", "E_local"),
            dtype="int64",
            values="how many rows each of the rank's experts got from every rank; on the device",
        ),
        Argument(
            name="routing_map", shape=("E", "M"), dtype="bool", values="whether a token of this rank chose an expert"
        ),
        Argument(
            name="local_input_permutation_mapping",
            shape=("T",),
            dtype="int64",
            values="token numbers of the true entries of routing_map, by expert, then by token",
        ),
        Argument(
            name="org_hidden_states_shape",
            kind=ArgumentKind.INTEGERS,
            dtype="torch.Size",
            values="torch.Size([M, N])",
            replicated=True,
        ),
        WORLD_GROUP,
    ),
    outputs=(
        Output(
            name="out",
            shape=("M", "N"),
            placement=Placement.PER_RANK,
            tolerance=Tolerance(
                atol=0.15,
                rtol=0.05,
                rms=0.0075,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, tiny, 2 and 4 ranks, 8 calls. Honest "
                "programs (rounded products, float32, other order) err by at most 0.01 and 0.0039 rms. The cheapest "
                "cheats (rows or weights in 8 bits) err by at least 0.045 and 0.0156 rms. The largest error grows with "
                "the number of elements. At base, in 60 calls of 2.1 million elements, it was 0.055, where two large "
                "products cancel. So its bound is wide and the rms decides.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: _size(tokens=60, width=96, experts=8, topk=2, system="a check on CPU ranks"),
        SizeName.BASE: _size(
            tokens=1024,
            width=1024,
            experts=8,
            topk=2,
            system="1024 tokens of 1024 elements per rank, two of 8 experts each",
        ),
        SizeName.LARGE: _size(
            tokens=4096,
            width=7168,
            experts=256,
            topk=8,
            system="DeepSeek-V3 (hidden size 7168, 256 routed experts, 8 per token) with 4096 tokens per rank",
        ),
    },
    cost=cost,
    refuses_world_size=divisors_of(8, needs="a world size that divides 8 experts"),
    world_size_rule="2, 4 or 8: a divisor of the number of experts",
    hops=(
        Hop(
            source="rank d",
            target="rank r",
            payload="the outputs of d's experts for r's tokens",
            pattern=Communication.ALL_TO_ALL_V,
        ),
    ),
    mutants_not_applicable={
        "shards_wrong_order": "pieces differ in length; a wrong order of them is the problem's own mutant "
        "not_regrouped",
    },
    counted_wire=Reading(
        least=0.85,
        most=1.3,
        reason="The model counts the mean over routings; in one call the busiest rank sends or receives more.",
    ),
    regimes=(
        Regime(
            name="one_rank_is_wanted",
            words="all ranks prefer the experts of one rank, so that ranks receive very different numbers of rows",
            settings={"routing": "wanted"},
            at_large=False,
        ),
        Regime(
            name="one_rank_gets_nothing",
            words="no token chose an expert of one rank, which receives no row",
            settings={"routing": "shunned"},
            at_large=False,
        ),
        Regime(
            name="free_weights",
            words="the weights of a token do not add up to 1, some are negative, and all may be tiny or huge",
            settings={"free_weights": True},
        ),
        Regime(
            name="other_choices",
            words="every token chose one to eight experts, tokens, experts and columns are other numbers than usual, "
            "and the first and last outputs of each expert may be zero, and the weights of the first and last token "
            "equal; a single choice has a weight below 1",
            dims={
                "topk": Whole(low=1, high=8, often=(1, 3, 5)),
                "M": Whole(low=13, high=131),
                "N": Extent(low=48, high=1040, of=16),
                "E": Among(options=("8", "16", "24", "64", "104", "256")),
            },
            settings={"edges": Among(options=("usual", "zero"))},
            derive=_routed,
        ),
        Regime(
            name="one_expert_counts",
            words="one of a token's weights is 1 and the others are 0, so that the sum has no rounding error",
            settings={"one_expert_counts": True},
            tolerances={"out": EXACT},
            narrow="ten_bit_wire",
        ),
        *of_tensor("expert_outputs", *SUMMED_VALUES),
    ),
    invariants=(
        "Tensors are contiguous, splits are lists.",
        "Values are finite. The largest one of `expert_outputs` on a rank is zero or between 1e-7 and 2e10 in size.",
        "`group` is None, the world group.",
        "`num_experts` is the first extent of `routing_map`: a multiple of 8, and at most 256.",
        "`N` is a multiple of 16.",
        "Every token chooses `topk` different experts, and all ranks have equally many tokens.",
        "`topk` lies between 1 and 8, and is at most half of `num_experts`. `M` may be odd.",
        "A rank's experts may have received no row, or more rows than the rank sent.",
        "Weights may be negative, and need not add up to 1. The largest of a rank is between 3e-8 and 1e8 in size.",
    ),
)
