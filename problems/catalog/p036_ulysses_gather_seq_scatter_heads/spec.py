"""From a split over positions to a split over heads, described."""

from dataclasses import replace

from problems.spec.ranges import Among, Extent, Whole
from problems.spec.regimes import CANCELLING_VALUES, COPIED_SIZES, COPIED_VALUES, MANY, beyond_16_bits, long_extent
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


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Everything is read once and written once; the heads that stay at home do not travel."""
    share = dims["B"] * dims["T"] * dims["num_heads"] * dims["head_size"] * element_bytes
    sent = (world_size - 1) / world_size * share
    return Cost(
        flops={},
        memory_bytes=2 * share,
        wire_bytes=sent,
        reference_wire_bytes=sent,
        note="The few padding positions at the end of the last shard are counted as if they were needed.",
    )


def _dims(*, B: int, T: int, num_heads: int, head_size: int, world_size: int) -> dict[str, int]:
    heads = {"num_heads": num_heads, "heads_local": num_heads // world_size, "head_size": head_size}
    return {"B": B, "T": T} | heads


def _base(world_size: int) -> Dims:
    whole = {"S": 16 * world_size, "unpadded_dim_size": 0}
    return _dims(B=16, T=16, num_heads=8, head_size=64, world_size=world_size) | whole


def _large(world_size: int) -> Dims:
    positions = 131_069
    shard = -(-positions // world_size)
    dims = _dims(B=1, T=shard, num_heads=64, head_size=128, world_size=world_size)
    return dims | {"S": positions, "unpadded_dim_size": positions}


def _equal_extents(dims: Dims, world_size: int) -> Dims:
    """The dimensions where two heads of each rank are all heads, and batch and positions are as many."""
    return {**dims, "B": 2 * world_size, "T": 2 * world_size}


PROBLEM = Problem(
    number=36,
    slug="ulysses_gather_seq_scatter_heads",
    title="Ulysses: positions together, heads apart",
    summary="Turns an activation split over positions into one split over attention heads and drops the padding.",
    origin="VeOmni, after DeepSpeed-Ulysses",
    parallelism=(Parallelism.SEQUENCE, Parallelism.CONTEXT),
    communication=(Communication.ALL_TO_ALL,),
    block=Block.ATTENTION,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.LLM,
    signature="solution(x: Tensor, seq_dim: int, head_dim: int, group: ProcessGroup or None = None, "
    "unpadded_dim_size: int = 0) -> Tensor",
    arguments=(
        Argument(
            name="x", shape=("B", "T", "num_heads", "head_size"), values="standard normal, different on every rank"
        ),
        Argument(name="seq_dim", kind=ArgumentKind.INTEGER, dtype="int", values="1 in timed calls", replicated=True),
        Argument(
            name="head_dim",
            kind=ArgumentKind.INTEGER,
            dtype="int",
            values="2 in timed calls, the index of a dimension",
            replicated=True,
        ),
        WORLD_GROUP,
        Argument(
            name="unpadded_dim_size",
            kind=ArgumentKind.INTEGER,
            dtype="int",
            values="0 at base; the true number of positions, no multiple of W, at large; either at tiny",
            replicated=True,
        ),
    ),
    outputs=(
        Output(name="out", shape=("B", "S", "heads_local", "head_size"), placement=Placement.PER_RANK, tolerance=EXACT),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: _dims(B=2, T=7, num_heads=8, head_size=24, world_size=world_size),
            system="a check on CPU ranks, with padding in most calls",
        ),
        SizeName.BASE: Size(dims=_base, system="256 KiB per rank in bfloat16: latency alone"),
        SizeName.LARGE: Size(
            dims=_large,
            system="queries of Llama 3.1 70B (64 heads of 128) over a packed sequence of 131069 positions, near the "
            "131072 of its context",
        ),
    },
    cost=cost,
    refuses_world_size=divisors_of(8, needs="2, 4 or 8 ranks, a divisor of its 8 heads"),
    world_size_rule="2, 4 or 8",
    hops=(
        Hop(
            source="rank r",
            target="rank d",
            payload="heads d H / W and following of its positions",
            pattern=Communication.ALL_TO_ALL,
        ),
    ),
    lengths_vary=True,
    regimes=(
        Regime(
            name="heads_first",
            words="heads come before positions: layout 2/1 means seq_dim 2 and head_dim 1",
            settings={"layout": Among(options=("2/1", "1/0", "2/0"))},
        ),
        Regime(
            name="positions_first",
            words="positions come first: layout 0/2 means seq_dim 0 and head_dim 2",
            settings={"layout": Among(options=("0/1", "0/2"))},
        ),
        Regime(
            name="equal_extents",
            words="batch, positions and heads are as many, so that shapes do not tell which dimension is which",
            settings={
                "layout": Among(options=("2/1", "1/0", "2/0", "0/1", "0/2")),
                "heads_of_a_rank": 2,
            },
            derive=_equal_extents,
        ),
        Regime(
            name="mostly_padding",
            words="the true positions end within the first rank's: all others hold padding",
            settings={"positions": "few"},
        ),
        Regime(
            name="multiple_of_ranks",
            words="unpadded_dim_size is a multiple of the number of ranks below all positions, so that nothing is cut",
            settings={"positions": "multiple"},
        ),
        Regime(
            name="other_extents",
            words="batch, positions and heads are other numbers of them; a rank may have one of each",
            settings={"heads_of_a_rank": Whole(low=1, high=7)},
            dims={
                "B": Whole(low=1, high=5),
                "T": Extent(low=1, high=51),
                "head_size": Extent(low=8, high=264, of=8),
            },
        ),
        Regime(
            name="awkward_lengths",
            words="a rank holds T positions, and in float32 T times 1/T is below one",
            settings={"heads_of_a_rank": Whole(low=1, high=40, often=(1, 1, 2))},
            dims={
                "B": Whole(low=2, high=3),
                "head_size": 8,
                "T": Among(options=("41", "47", "55", "61", "82", "83", "97")),
            },
        ),
        replace(
            beyond_16_bits("many_sequences", B=MANY, T=1, head_size=8),
            settings={"heads_of_a_rank": 1},
        ),
        replace(
            long_extent("many_positions", T=Extent(low=32_800, high=36_000), B=1, head_size=8),
            settings={"heads_of_a_rank": Whole(low=1, high=2)},
            at_large=False,
        ),
        Regime(
            name="zeros_in_front",
            words="every second position has eight zeros in front of every head, and of several heads that a rank "
            "gets the first is zero",
            settings={"front": "zero"},
            apart=("other_extents", "awkward_lengths", "many_positions"),
        ),
        *COPIED_VALUES,
        CANCELLING_VALUES,
    ),
    invariants=(
        "`x` is contiguous, of four dimensions, the last of them a head's channels.",
        "`seq_dim` and `head_dim` are two different ones of 0, 1 and 2.",
        "`group` is None, the world group.",
        "`x` has the same shape on all ranks.",
        COPIED_SIZES,
        "The number of heads is a multiple of the number of ranks, and the size of a head is a multiple of 8.",
        "`unpadded_dim_size` is from 0 to the number of all positions.",
    ),
)
