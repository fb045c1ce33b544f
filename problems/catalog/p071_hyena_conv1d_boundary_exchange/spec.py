"""Context-parallel causal depthwise convolution in zigzag order, described."""

from dataclasses import replace

from problems.families.one_rank_spec import also_larger
from problems.spec.ranges import Among, Extent, Whole
from problems.spec.regimes import long_extent, of_product
from problems.spec.schema import (
    WORLD_GROUP,
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
    fixed,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

_CONTEXT = 1_048_576
_HIDDEN = 8192
_TAPS = 7
"""Evo 2 40B: its context, its hidden size and the length of its short filters (published configuration)."""


def large(world_size: int) -> Dims:
    """One short convolution over the context as eight ranks or more split it; fewer ranks hold a part."""
    return {"B": 1, "C": _HIDDEN, "L": _CONTEXT // (2 * max(8, world_size)) * 2, "Kw": _TAPS}


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """The shard is read and written once; each inner rank sends two halos and receives two."""
    positions, channels, taps = dims["B"] * dims["L"], dims["C"], dims["Kw"]
    halo = dims["B"] * channels * (taps - 1) * element_bytes
    wire = (1 if world_size == 2 else 2) * halo
    return Cost(
        flops={"fp32": 2 * positions * channels * taps},
        memory_bytes=element_bytes * (2 * positions * channels + channels * taps),
        wire_bytes=wire,
        reference_wire_bytes=wire,
        note="The first and the last rank send half as much.",
    )


_MOST_ELEMENTS = 150_000
"""Of a rank's chunks, where there are other numbers of sequences, channels and positions."""


def _fewer_positions(dims: Dims, _world_size: int) -> Dims:
    """`dims` with fewer positions and sequences where there are many channels: more take long on processors."""
    positions = min(dims["L"], 2 * (_MOST_ELEMENTS // (2 * dims["C"])))
    return {**dims, "L": positions, "B": min(dims["B"], max(1, _MOST_ELEMENTS // (dims["C"] * positions)))}


def _also_of_filters(regime: Regime) -> Regime:
    """`regime`; where it has all of x zero, filters may be instead."""
    if regime.name != "zero_values":
        return regime
    settings = {**regime.settings, "zeros": Among(options=("weight", "x"))}
    return replace(regime, words="all values of x are zero, or those of weight", settings=settings)


_FIRST = "and that of the first channel may be zero, or begin or end with zeros"
_FIRST_FILTER = {"first_filter": Among(options=("usual", "zero", "begins_zero", "ends_zero"))}

PROBLEM = Problem(
    number=71,
    slug="hyena_conv1d_boundary_exchange",
    title="Context-parallel causal depthwise convolution with halo exchange",
    summary="A short causal filter per channel over a sequence in zigzag order; only chunk ends travel to neighbours.",
    origin="Savanna and NVIDIA BioNeMo Hyena (StripedHyena 2, Evo 2), context parallel",
    parallelism=(Parallelism.CONTEXT,),
    communication=(Communication.SEND_RECV,),
    block=Block.CONVOLUTION,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.SCIENCE,
    signature="solution(x: Tensor, weight: Tensor, group: ProcessGroup or None = None) -> Tensor",
    arguments=(
        Argument(
            name="x",
            shape=("B", "C", "L"),
            values="normal times a log-normal scale per element; different on every rank: L/2 positions of chunk r, "
            "then L/2 of chunk 2W-1-r",
        ),
        Argument(name="weight", shape=("C", 1, "Kw"), values="standard normal, the same on all ranks", replicated=True),
        WORLD_GROUP,
    ),
    outputs=(
        Output(
            name="y",
            shape=("B", "C", "L"),
            placement=Placement.SHARDED,
            sharding="rank r holds chunk r, then chunk 2W-1-r",
            tolerance=Tolerance(
                atol=0.011,
                rtol=0.011,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, 2 and 4 ranks, tiny, 8 calls. Honest "
                "programs (library, float32, tap by tap) err by at most 0.0036. The cheapest cheat (halos in 8 bits, "
                "one scale per channel) errs by at least 0.032.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=fixed(B=2, C=256, L=36, Kw=7), system="a check on CPU ranks, two sequences"),
        SizeName.BASE: Size(
            dims=fixed(B=1, C=1024, L=2048, Kw=7), system="the card's size: two chunks of 1024 per rank"
        ),
        SizeName.LARGE: Size(
            dims=large,
            system="Evo 2 40B (hidden size 8192, short filters of 7 taps) over its context of 1048576 bases, as eight "
            "ranks split it; fewer ranks hold a part of the context",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="rank r",
            target="rank r + 1",
            payload="the last Kw - 1 positions of the early chunk",
            pattern=Communication.SEND_RECV,
        ),
        Hop(
            source="rank r",
            target="rank r - 1",
            payload="the last Kw - 1 positions of the late chunk",
            pattern=Communication.SEND_RECV,
        ),
    ),
    regimes=(
        Regime(
            name="short_filters",
            words=f"filters have 2 to 6 taps, {_FIRST}",
            settings=_FIRST_FILTER,
            dims={"Kw": Whole(low=2, high=6)},
        ),
        Regime(
            name="long_filters",
            words=f"filters have 8 to 19 taps, {_FIRST}",
            settings=_FIRST_FILTER,
            dims={"Kw": Whole(low=8, high=19, often=(16, 19))},
        ),
        Regime(
            name="whole_chunks",
            words="filters have 19 taps and chunks 18 positions: every result needs the chunk before, all of it a halo",
            dims={"Kw": 19, "L": 36},
        ),
        Regime(
            name="odd_chunks",
            words="chunks have other numbers of positions and channels, most odd, and the first channel may be zero",
            settings={"first_channel": Among(options=("zero", "usual"))},
            dims={
                "B": Extent(high=40),
                "C": Extent(high=1100),
                "L": Extent(low=38, high=700, of=2),
            },
            derive=_fewer_positions,
        ),
        long_extent("long_chunks", B=Extent(high=3), C=Extent(high=2), L=Extent(low=131_200, high=140_000, of=2)),
        *(_also_of_filters(also_larger(regime)) for regime in of_product("x", "weight", is_shared=True)),
    ),
    invariants=(
        "Tensors are contiguous.",
        "Values of `x` are at most 1e11 in size, those of `weight` 2e8; what is not zero is 1e-21 at least.",
        "`group` is None, the world group.",
        "Filters have 2 to 19 taps, and at most one more than a chunk has positions.",
        "Batch entries, channels and the positions of a chunk may be odd in number.",
        "All ranks have tensors of the same shapes, and so an even number of positions each.",
    ),
)
