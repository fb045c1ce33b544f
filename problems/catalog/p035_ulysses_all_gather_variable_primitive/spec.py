"""All-gather of shares of different lengths, described."""

from dataclasses import replace

from problems.spec.ranges import Among, Extent, Whole
from problems.spec.regimes import ALL_DTYPES, CANCELLING_VALUES, COPIED_SIZES, COPIED_VALUES, MANY, beyond_16_bits
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

_SHARES = Among(options=("about_the_mean", "any"))
"""Lengths of shares that a regime has: what any cuts leave, or such that a length says nothing about the others."""


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """A share of mean length is read, the whole is written; all but the own share arrive."""
    whole = dims["out_rows"] * dims["out_columns"] * element_bytes
    shapes = 16 * (world_size - 1)
    received = (world_size - 1) / world_size * whole
    return Cost(
        flops={},
        memory_bytes=whole + whole / world_size,
        wire_bytes=received,
        reference_wire_bytes=shapes + received * (1 if "M" in dims and "N" in dims else 1.3),
        note="Mean over ranks. The reference pads uneven shares to the longest, about 1.3 times the mean.",
    )


def _tiny(world_size: int) -> Dims:
    columns = 40 * world_size
    return {"M": 24, "total": columns, "gather_dim": 1, "out_rows": 24, "out_columns": columns}


def _base(world_size: int) -> Dims:
    rows = 1024 * world_size
    return {"M": 1024, "N": 1024, "total": rows, "gather_dim": 0, "out_rows": rows, "out_columns": 1024}


def _large(_world_size: int) -> Dims:
    rows, width = 131_072, 8192
    return {"N": width, "total": rows, "gather_dim": 0, "out_rows": rows, "out_columns": width}


PROBLEM = Problem(
    number=35,
    slug="ulysses_all_gather_variable_primitive",
    title="All-gather of shares of different lengths",
    summary="Joins matrices that differ in length along a given dimension, without being told the lengths.",
    origin="VeOmni (sequence-parallel helpers)",
    parallelism=(Parallelism.SEQUENCE, Parallelism.CONTEXT),
    communication=(Communication.ALL_GATHER,),
    block=Block.PRIMITIVE,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.GENERIC,
    signature="solution(x: Tensor, gather_dim: int, group: ProcessGroup or None = None) -> Tensor",
    arguments=(
        Argument(
            name="x",
            shape=("M", "N"),
            values="standard normal, different on every rank; its length along gather_dim is the same on all ranks at "
            "base, and uneven, secret and new on every call at tiny and large (the lengths add up to `total`)",
        ),
        Argument(
            name="gather_dim",
            kind=ArgumentKind.INTEGER,
            dtype="int",
            values="0; at tiny 1",
            replicated=True,
        ),
        WORLD_GROUP,
    ),
    outputs=(
        Output(
            name="out",
            shape=("out_rows", "out_columns"),
            placement=Placement.REPLICATED,
            tolerance=EXACT,
            layout="contiguous",
        ),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=_tiny,
            system="a check on CPU ranks: uneven lengths along dimension 1",
        ),
        SizeName.BASE: Size(dims=_base, system="2 MiB per rank in bfloat16, lengths that happen to be equal"),
        SizeName.LARGE: Size(
            dims=_large,
            system="packed documents of 131072 tokens in all, cut between documents, with the activations of Llama 3.1 "
            "70B (hidden size 8192)",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="every rank", target="every rank", payload="the shape of its share", pattern=Communication.ALL_GATHER
        ),
        Hop(source="rank r", target="every other rank", payload="its share", pattern=Communication.ALL_GATHER),
    ),
    mutants_not_applicable={
        "last_rank_skipped": "without its length nothing can be gathered from the last rank; the own mutant "
        "last_share_empty stands for it",
        "shards_wrong_order": "rotating the shapes beside the padded shares rotates whole shares; the problem's own "
        "mutant shares_reversed stands for it",
    },
    counted_wire=Reading(
        least=0.9,
        most=1.1,
        reason="The longest share is about 1.3 times the mean; how much exactly differs from call to call.",
    ),
    lengths_vary=True,
    regimes=(
        Regime(
            name="one_rank_has_all",
            words="one rank's share is everything and all others are empty",
            settings={"shares": "one_has_all"},
            at_large=False,
        ),
        Regime(name="one_rank_is_empty", words="one rank's share is empty", settings={"shares": "one_is_empty"}),
        Regime(
            name="short_shares",
            words="shares are a sixteenth as long, and wider than long",
            settings={"shorter": 16},
        ),
        Regime(
            name="other_dimension",
            words="gather_dim is the other one than in timed calls of this size",
            settings={"turned": True},
        ),
        Regime(
            name="other_width",
            words="across gather_dim x has another extent, which may be odd",
            settings={"width": Whole(low=1, high=301)},
        ),
        Regime(
            name="other_extents",
            words="shares have any lengths, some may be empty, and another extent across gather_dim; or all but two "
            "ranks have shares of the mean length, and these two as much more and less (about_the_mean)",
            settings={"shares": _SHARES, "width": Extent(low=1, high=260)},
            dims={"total": Extent(low=1, high=1500)},
            at_large=False,
        ),
        Regime(
            name="long_rows",
            words="one extent of x is long, that across gather_dim, and shares have any lengths or are about_the_mean",
            settings={"shares": _SHARES, "width": Extent(low=33_000, high=70_000)},
            dims={"total": Whole(low=1, high=24)},
            at_large=False,
        ),
        replace(
            beyond_16_bits("many_positions", total=MANY),
            settings={"shares": "any", "width": Whole(low=1, high=3), "turned": Whole(low=0, high=1)},
        ),
        Regime(
            name="zeros_in_front",
            words="every second position of x begins with eight zeros",
            settings={"front": "zero"},
            apart=("short_shares", "other_width", "other_extents", "long_rows"),
        ),
        *COPIED_VALUES,
        CANCELLING_VALUES,
    ),
    invariants=(
        "`x` is a contiguous matrix.",
        "`gather_dim` is 0 or 1, never negative.",
        "`group` is None, the world group.",
        "Lengths along `gather_dim` may be zero, but they are not zero on all ranks.",
        "The extent across `gather_dim` is the same on all ranks, and may be odd.",
        COPIED_SIZES,
    ),
    dtypes=ALL_DTYPES,
)
