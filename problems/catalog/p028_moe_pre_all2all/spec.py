"""MoE dispatch (permute by expert, all-to-all, regroup by local expert), described."""

from problems.spec.ranges import Among, Extent, Whole
from problems.spec.regimes import CANCELLING_VALUES, COPIED_VALUES, MANY, beyond_16_bits
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
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage
from problems.spec.world_sizes import divisors_of


def _size(*, tokens: int, width: int, experts: int, topk: int, system: str) -> Size:
    def dims(world_size: int) -> Dims:
        local = experts // world_size
        own = {"M": tokens, "N": width, "E": experts, "topk": topk}
        return own | {"T": topk * tokens, "W": world_size, "E_local": local}

    return Size(dims=dims, system=system)


_MOST_SENT = 300_000
"""Elements that a rank of a regime sends: every call of a check has room for the longest outputs of any regime."""


def _routed(dims: Dims, world_size: int) -> Dims:
    topk = min(dims["topk"], dims["E"] // 2)
    rows = topk * dims["M"]
    width = min(dims["N"], max(16, _MOST_SENT // rows // 16 * 16))
    return {**dims, "topk": topk, "T": rows, "N": width, "E_local": dims["E"] // world_size}


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Tokens and mask are read once, rows written once; as many rows leave a rank as arrive, some stay at home."""
    rows, mask = dims["T"] * dims["N"], dims["E"] * dims["M"]
    wire = (world_size - 1) / world_size * rows * element_bytes
    return Cost(
        flops={"fp32": mask * dims["topk"]},
        memory_bytes=element_bytes * (dims["M"] * dims["N"] + rows)
        + 4 * mask * dims["topk"]
        + 4 * mask
        + 8 * dims["T"],
        wire_bytes=wire / min(dims["topk"], dims["E_local"]),
        reference_wire_bytes=wire,
        note="Mean over routings. Rows of one token for experts of one rank need to travel once: up to topk (or all "
        "local experts) at a time. That is counted as if it always happened.",
    )


_SPLITS = "uneven and secret, new on every call and different on every rank; they add up to T"

PROBLEM = Problem(
    number=28,
    slug="moe_pre_all2all",
    title="MoE dispatch (permute by expert, all-to-all, regroup by local expert)",
    summary="Tokens are copied once per chosen expert, sent to the ranks that own the experts, and grouped by local "
    "expert.",
    origin="VeOmni (expert-parallel dispatch, after Megatron-LM's token dispatcher)",
    parallelism=(Parallelism.EXPERT,),
    communication=(Communication.ALL_TO_ALL_V,),
    block=Block.MOE,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.MOE_LLM,
    signature="solution(hidden_states: Tensor, expert_mask: Tensor[float32], num_experts: int, "
    "input_splits: list[int] or Tensor, output_splits: list[int] or Tensor, "
    "num_global_tokens_per_local_expert: Tensor[int64], group: ProcessGroup or None = None) -> "
    "(Tensor, Tensor[float32], Tensor[int64], torch.Size)",
    arguments=(
        Argument(name="hidden_states", shape=("M", "N"), values="standard normal, different on every rank"),
        Argument(
            name="expert_mask",
            shape=("E", "topk", "M"),
            dtype="float32",
            values="one-hot over experts; the slots of a token name different experts, in random order",
        ),
        Argument(
            name="num_experts", kind=ArgumentKind.INTEGER, dtype="int", values="E: 8; 256 at large", replicated=True
        ),
        Argument(name="input_splits", kind=ArgumentKind.INTEGERS, shape=("W",), dtype="int", values=_SPLITS),
        Argument(
            name="output_splits",
            kind=ArgumentKind.INTEGERS,
            shape=("W",),
            dtype="int",
            values="entry s is what rank s sends here; in timed calls they add up to T as well",
        ),
        Argument(
            name="num_global_tokens_per_local_expert",
            shape=("W", "E_local"),
            dtype="int64",
            values="how many rows each of the rank's experts gets from every rank; on the device",
        ),
        WORLD_GROUP,
    ),
    outputs=(
        Output(name="global_permuted_hidden_states", shape=("T", "N"), placement=Placement.PER_RANK, tolerance=EXACT),
        Output(name="routing_map", shape=("E", "M"), dtype="float32", placement=Placement.PER_RANK, tolerance=EXACT),
        Output(
            name="local_input_permutation_mapping",
            shape=("T",),
            dtype="int64",
            placement=Placement.PER_RANK,
            tolerance=EXACT,
        ),
        Output(
            name="org_hidden_states_shape",
            shape=(2,),
            dtype="int64",
            placement=Placement.REPLICATED,
            tolerance=EXACT,
            on_host=True,
        ),
    ),
    sizes={
        SizeName.TINY: _size(tokens=60, width=48, experts=8, topk=2, system="a check on CPU ranks"),
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
            source="rank r",
            target="rank d",
            payload="input_splits[d] rows, in the order of d's experts",
            pattern=Communication.ALL_TO_ALL_V,
        ),
    ),
    mutants_not_applicable={
        "shards_wrong_order": "pieces differ in length; their wrong order is the problem's own mutant not_regrouped",
    },
    counted_wire=Reading(
        least=0.85,
        most=1.3,
        reason="The model counts the mean over routings; in one call the busiest rank sends or receives more.",
    ),
    lengths_vary=True,
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
            name="even_splits",
            words="every rank sends equally many rows, give or take one, to each rank, but not to its experts",
            settings={"routing": "even"},
        ),
        Regime(
            name="other_choices",
            words="every token chose one to eight experts, tokens, experts and columns are other numbers than usual, "
            "and every other token may begin with zeros",
            dims={
                "topk": Whole(low=1, high=8),
                "M": Whole(low=1, high=131),
                "N": Extent(low=16, high=1040, of=16),
                "E": Among(options=("8", "16", "24", "64", "104", "256")),
            },
            settings={"beginnings": Among(options=("usual", "zero"))},
            derive=_routed,
        ),
        beyond_16_bits("many_tokens", derive=_routed, M=MANY, topk=1, N=16, E=8),
        *COPIED_VALUES,
        CANCELLING_VALUES,
    ),
    invariants=(
        "Tensors are contiguous, splits are lists.",
        "`group` is None, the world group.",
        "`num_experts` is the first extent of the mask: a multiple of 8, and at most 256.",
        "`N` is a multiple of 16.",
        "Every token chooses `topk` different experts, and all ranks have equally many tokens.",
        "`topk` lies between 1 and 8, and is at most half of `num_experts`. `M` may be odd.",
        "A rank may receive no row, or more than it sends.",
        "Values may be NaN, infinite or subnormal. Finite ones are at most 1e31 in size.",
        "Copies are compared bit by bit, but one NaN is as good as another.",
    ),
)
