"""From a split over heads to a split over positions, described."""

from problems.spec.ranges import Among, Extent, Whole
from problems.spec.regimes import CANCELLING_VALUES, COPIED_SIZES, COPIED_VALUES, MANY, beyond_16_bits
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
    """True positions are read once; the result, padding included, is written once."""
    position = dims["B"] * dims["num_heads"] * dims["head_size"] * element_bytes
    padded = dims["T_local"] * world_size
    return Cost(
        flops={},
        memory_bytes=(dims["T"] + padded) * position,
        wire_bytes=(dims["T"] - dims["T_local"]) * position,
        reference_wire_bytes=(world_size - 1) / world_size * padded * position,
        note="Zeros of the padding need not travel: a rank sends its true positions but those of its own shard.",
    )


def _dims(*, B: int, T: int, num_heads: int, head_size: int, world_size: int) -> Dims:
    shard = {"T": T, "T_local": -(-T // world_size)}
    heads = {"num_heads": num_heads, "all_heads": num_heads * world_size, "head_size": head_size}
    return {"B": B} | shard | heads


def shards(dims: Dims, world_size: int) -> Dims:
    """The positions and heads that a rank returns, where those that it holds are set."""
    return {**dims, "T_local": -(-dims["T"] // world_size), "all_heads": dims["num_heads"] * world_size}


def other_padding(dims: Dims, world_size: int) -> Dims:
    """The same shards, with padding where there was none and none where there was some."""
    whole = world_size * dims["T_local"]
    return {**dims, "T": whole - 1 if dims["T"] == whole else whole}


def last_one_missing(dims: Dims, world_size: int) -> Dims:
    """Shards of a length that is set, with one position of padding."""
    return shards({**dims, "T": world_size * dims["T_local"] - 1}, world_size)


PROBLEM = Problem(
    number=37,
    slug="ulysses_gather_heads_scatter_seq",
    title="Ulysses: heads together, positions apart",
    summary="Turns an activation split over attention heads into one split over positions, padding the sequence first.",
    origin="VeOmni, after DeepSpeed-Ulysses",
    parallelism=(Parallelism.SEQUENCE, Parallelism.CONTEXT),
    communication=(Communication.ALL_TO_ALL,),
    block=Block.ATTENTION,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.LLM,
    signature="solution(x: Tensor, seq_dim: int, head_dim: int, group: ProcessGroup or None = None) -> Tensor",
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
    ),
    outputs=(
        Output(
            name="out", shape=("B", "T_local", "all_heads", "head_size"), placement=Placement.PER_RANK, tolerance=EXACT
        ),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: _dims(B=2, T=29, num_heads=3, head_size=24, world_size=world_size),
            system="a check on CPU ranks, with padding",
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: _dims(B=16, T=16, num_heads=8, head_size=64, world_size=world_size),
            system="256 KiB per rank in bfloat16, no padding: latency alone",
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: _dims(
                B=1, T=131_069, num_heads=64 // world_size, head_size=128, world_size=world_size
            ),
            system="attention output of Llama 3.1 70B (64 heads of 128 over all ranks) for a packed sequence of 131069 "
            "positions, close to its context of 131072",
        ),
    },
    cost=cost,
    refuses_world_size=divisors_of(8, needs="2, 4 or 8 ranks"),
    world_size_rule="2, 4 or 8",
    hops=(
        Hop(
            source="rank r",
            target="rank d",
            payload="shard d of the positions of its heads",
            pattern=Communication.ALL_TO_ALL,
        ),
    ),
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
            settings={"layout": Among(options=("2/1", "1/0", "2/0", "0/1", "0/2"))},
            dims={"B": 6, "T": 6, "num_heads": 6},
            derive=shards,
            apart=("other_padding",),
        ),
        Regime(
            name="one_position",
            words="the sequence has one position, so that all ranks but the first return padding alone, and heads "
            "have many channels",
            dims={"T": 1, "T_local": 1, "head_size": Extent(low=512, high=9000, of=8)},
        ),
        Regime(
            name="other_extents",
            words="batch, positions, heads and their channels are other numbers; the ranks may divide the positions",
            dims={
                "B": Whole(low=1, high=3),
                "T": Extent(low=1, high=330),
                "num_heads": Extent(low=1, high=36),
                "head_size": Extent(low=8, high=264, of=8),
            },
            derive=shards,
        ),
        beyond_16_bits("many_positions", derive=shards, T=MANY, B=1, num_heads=Whole(low=1, high=2), head_size=8),
        beyond_16_bits("many_sequences", derive=shards, B=MANY, T=Whole(low=1, high=3), num_heads=1, head_size=8),
        Regime(
            name="other_padding",
            words="the sequence ends elsewhere in the same padded length: at its end, or one before where the ranks "
            "divide the positions of timed calls",
            settings={"padding": "other"},
            derive=other_padding,
        ),
        Regime(
            name="awkward_lengths",
            words="a rank returns T positions, and in float32 T times 1/T is below one; a head has 512 channels",
            dims={
                "B": Whole(low=2, high=3),
                "num_heads": Whole(low=1, high=2),
                "head_size": 512,
                "T_local": Among(options=("41", "47", "55", "61", "82", "83", "97")),
            },
            derive=last_one_missing,
        ),
        *COPIED_VALUES,
        CANCELLING_VALUES,
    ),
    invariants=(
        "`x` is contiguous, of four dimensions, the last of them a head's channels.",
        "`seq_dim` and `head_dim` are two different ones of 0, 1 and 2.",
        "`x` has the same shape on all ranks.",
        COPIED_SIZES,
        "The size of a head is a multiple of 8.",
        "`group` is None, the world group.",
    ),
)
