"""From positions to heads for a fused query, key and value projection, described."""

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
    """Everything is read once and written once; the own third parts do not travel."""
    share = dims["B"] * dims["T"] * dims["qkv"] * element_bytes
    sent = (world_size - 1) / world_size * share
    return Cost(
        flops={},
        memory_bytes=2 * share,
        wire_bytes=sent,
        reference_wire_bytes=sent,
        note="The few padding positions at the end of the last shard are counted as if they were needed.",
    )


def _dims(*, B: int, T: int, proj: int, world_size: int) -> dict[str, int]:
    return {"B": B, "T": T, "proj": proj, "qkv": 3 * proj, "qkv_local": 3 * proj // world_size}


def _base(world_size: int) -> Dims:
    return _dims(B=16, T=16, proj=512, world_size=world_size) | {"S": 16 * world_size, "unpadded_dim_size": 0}


def _large(world_size: int) -> Dims:
    positions = 131_069
    dims = _dims(B=1, T=-(-positions // world_size), proj=4096, world_size=world_size)
    return dims | {"S": positions, "unpadded_dim_size": positions}


PROBLEM = Problem(
    number=38,
    slug="ulysses_gather_seq_scatter_heads_qkv",
    title="Ulysses: one exchange for queries, keys and values",
    summary="Turns a fused QKV activation split over positions into one split over heads, with matching heads of all "
    "three on every rank.",
    origin="VeOmni, after DeepSpeed-Ulysses",
    parallelism=(Parallelism.SEQUENCE, Parallelism.CONTEXT),
    communication=(Communication.ALL_TO_ALL,),
    block=Block.ATTENTION,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.LLM,
    signature="solution(qkv_tensor: Tensor, seq_dim: int, group: ProcessGroup or None = None, "
    "unpadded_dim_size: int or None = None, restore_shape: bool = True) -> Tensor",
    arguments=(
        Argument(
            name="qkv_tensor",
            shape=("B", "T", "qkv"),
            values="standard normal, different on every rank; the last dimension holds queries, keys, values",
        ),
        Argument(name="seq_dim", kind=ArgumentKind.INTEGER, dtype="int", values="1 in timed calls", replicated=True),
        WORLD_GROUP,
        Argument(
            name="unpadded_dim_size",
            kind=ArgumentKind.INTEGER,
            dtype="int",
            values="None at base; the true number of positions, no multiple of W, at large; either at tiny",
            replicated=True,
        ),
        Argument(
            name="restore_shape", kind=ArgumentKind.BOOLEAN, dtype="bool", values="True in timed calls", replicated=True
        ),
    ),
    outputs=(Output(name="out", shape=("B", "S", "qkv_local"), placement=Placement.PER_RANK, tolerance=EXACT),),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: _dims(B=2, T=5, proj=96, world_size=world_size),
            system="a check on CPU ranks, with padding in most calls",
        ),
        SizeName.BASE: Size(dims=_base, system="768 KiB per rank in bfloat16: close to latency alone"),
        SizeName.LARGE: Size(
            dims=_large,
            system="LLaMA-2-7B (32 heads of 128, one key and value head per query head) trained on packed sequences of "
            "131069 positions",
        ),
    },
    cost=cost,
    refuses_world_size=divisors_of(8, needs="2, 4 or 8 ranks, a divisor of its 8 heads"),
    world_size_rule="2, 4 or 8",
    hops=(
        Hop(
            source="rank r",
            target="rank d",
            payload="part d of the queries, of the keys and of the values at its positions",
            pattern=Communication.ALL_TO_ALL,
        ),
    ),
    notes=("Without restore_shape, the result has one more dimension, but the same bytes in the same order.",),
    lengths_vary=True,
    regimes=(
        Regime(
            name="three_blocks",
            words="restore_shape is False: the result has four dimensions",
            settings={"restore_shape": False},
            narrow="usual_numbers",
        ),
        Regime(
            name="positions_first",
            words="positions come before the batch: seq_dim is 0",
            settings={"seq_dim": 0},
        ),
        Regime(
            name="mostly_padding",
            words="the true positions end within the first rank's, so that all others hold padding (few), or anywhere",
            settings={"positions": Among(options=("few", "any"))},
        ),
        Regime(
            name="multiple_of_ranks",
            words="unpadded_dim_size is a multiple of the number of ranks below all positions, so that nothing is cut",
            settings={"positions": "multiple"},
        ),
        Regime(
            name="zero_for_none",
            words="unpadded_dim_size is 0, so that nothing is cut",
            settings={"positions": "all", "nothing_to_cut": 0},
        ),
        Regime(
            name="other_extents",
            words="batch, positions and features are other numbers of them; a rank may have one of each",
            settings={"part": Extent(low=1, high=260)},
            dims={"B": Whole(low=1, high=3), "T": Extent(low=1, high=48)},
        ),
        replace(
            long_extent("many_features", B=Whole(low=1, high=2), T=Whole(low=1, high=2)),
            settings={"part": Extent(low=261, high=35_000)},
            at_large=False,
        ),
        replace(
            beyond_16_bits("many_positions", T=Extent(low=32_800, high=35_000), B=1),
            words="all ranks together have more than 65,536 positions, more than 16 bits can number",
            settings={"part": Whole(low=1, high=2)},
        ),
        replace(beyond_16_bits("many_sequences", B=MANY, T=1), settings={"part": 1}),
        Regime(
            name="least_extents",
            words="a rank has one position of each sequence and one feature of each block, the last positions are "
            "padding, positions come before the batch, and restore_shape is False",
            settings={"part": 1, "positions": "any", "seq_dim": 0, "restore_shape": False},
            dims={"B": Whole(low=2, high=3), "T": 1},
            narrow="usual_numbers",
        ),
        Regime(
            name="awkward_lengths",
            words="a rank holds T positions, and in float32 T times 1/T is below one",
            settings={"part": Extent(low=1, high=16)},
            dims={"B": Whole(low=2, high=3), "T": Among(options=("41", "47", "55", "61", "82", "83", "97"))},
        ),
        *COPIED_VALUES,
        CANCELLING_VALUES,
    ),
    invariants=(
        "`qkv_tensor` is contiguous, of three dimensions, the last of them the features.",
        "`seq_dim` is 0 or 1, never negative.",
        "`group` is None, the world group.",
        "`qkv_tensor` has the same shape on all ranks.",
        COPIED_SIZES,
        "P is a multiple of the number of ranks, an odd one too.",
        "`unpadded_dim_size` is None, or from 0 to the number of all positions.",
    ),
)
