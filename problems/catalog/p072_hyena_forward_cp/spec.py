"""Hyena long convolution with context parallelism, described."""

from dataclasses import replace
from math import log2

from problems.families.one_rank_spec import also_larger
from problems.spec.ranges import Among, Extent, Real, Whole
from problems.spec.regimes import (
    HUGE_VALUES,
    ONE_RANK_HAS_VALUES,
    TINY_VALUES,
    ZERO_VALUES,
    copied_values,
    of_tensor,
)
from problems.spec.schema import (
    WORLD_GROUP,
    Argument,
    ArgumentKind,
    Axis,
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
    fixed,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage
from problems.spec.world_sizes import divisors_of

_CHANNELS = 1024
_HIDDEN = 4096
"""Hidden size of Evo 2 7B (its published configuration), whose long filters are one per channel."""

_POSITIONS = 131_072


def large(world_size: int) -> Dims:
    """Part of the context, filters as long as the sequence."""
    return {"B": 1, "C": _HIDDEN, "G": _HIDDEN, "D": 1, "Ls": _POSITIONS // world_size, "Lf": _POSITIONS}


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Three real transforms of twice the sequence per channel; the reference sends four streams.

    The filters' transform counts as one of the three. Of the 2 W chunks of a channel, all but one rank's two move to
    the rank that transforms it, and as many results back. But the last chunk matters to none but itself, and the first
    one depends on none. Transforms can be made of small products, so their operations (the usual FFT count, fewer than
    such products have) count as tensor-core work.
    """
    length = dims["Ls"] * world_size
    stream = dims["B"] * dims["C"] * dims["Ls"]
    transforms = dims["C"] / world_size * (2 * dims["B"] + 1)
    sent = 4 * (world_size - 1) / world_size * stream * element_bytes
    weights = dims["G"] / world_size * dims["Lf"] + dims["C"] / world_size
    return Cost(
        flops={"matmul": transforms * 2.5 * 2 * length * log2(2 * length)},
        memory_bytes=element_bytes * (4 * stream + weights),
        wire_bytes=sent / 2 * (1 - 1 / (2 * (world_size - 1))),
        reference_wire_bytes=sent,
        note="Two streams are enough: x2 and v can be multiplied before they leave, and x1 need not travel where the "
        "result is gated after it has come back. The last chunk need not leave, the first one's result not come back.",
    )


def _whole_groups(dims: Dims, world_size: int) -> Dims:
    """Channels rounded up to a multiple of 16 times the world size, and filters no longer than the sequence."""
    channels = -(-dims["C"] // (16 * world_size)) * 16 * world_size
    return {**dims, "C": channels, "G": channels // dims["D"], "Lf": min(dims["Lf"], world_size * dims["Ls"])}


def at_length(_axis: Axis, dims: Dims, value: int, world_size: int) -> Dims:
    """Filters keep their length, but are never longer than the sequence."""
    return {**dims, "Ls": value, "Lf": min(dims["Lf"], world_size * value)}


PROBLEM = Problem(
    number=72,
    slug="hyena_forward_cp",
    title="Hyena long convolution with context parallelism",
    summary="A gated convolution as long as the sequence: positions to channels, transforms, and back.",
    origin="Savanna and NVIDIA BioNeMo Hyena (StripedHyena 2, Evo 2), context parallel",
    parallelism=(Parallelism.CONTEXT,),
    communication=(Communication.ALL_TO_ALL,),
    block=Block.CONVOLUTION,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.SCIENCE,
    signature="solution(x1_seq: Tensor, x2_seq: Tensor, v_seq: Tensor, h: Tensor, conv_bias: Tensor, num_groups: int, "
    "group_dim: int, group: ProcessGroup or None = None, with_zigzag_splitting: bool = True) -> Tensor",
    arguments=(
        Argument(
            name="x1_seq",
            shape=("B", "C", "Ls"),
            values="normal times a log-normal scale per element; half the positions of chunk r, half of chunk 2W-1-r",
        ),
        Argument(name="x2_seq", shape=("B", "C", "Ls"), values="standard normal, laid out as x1_seq"),
        Argument(name="v_seq", shape=("B", "C", "Ls"), values="as x1_seq, other values"),
        Argument(
            name="h",
            shape=("G", "Lf"),
            values="normal under a decaying exponential with a time constant per group, about unit energy; "
            "new on every call, the same on all ranks",
            replicated=True,
        ),
        Argument(name="conv_bias", shape=("C",), values="standard normal, the same on all ranks", replicated=True),
        Argument(name="num_groups", kind=ArgumentKind.INTEGER, dtype="int", values="G, the number of filters"),
        Argument(name="group_dim", kind=ArgumentKind.INTEGER, dtype="int", values="channels per filter"),
        WORLD_GROUP,
        Argument(name="with_zigzag_splitting", kind=ArgumentKind.BOOLEAN, dtype="bool", values="True"),
    ),
    outputs=(
        Output(
            name="z",
            shape=("B", "Ls", "C"),
            placement=Placement.SHARDED,
            sharding="positions as in the inputs, channels last",
            layout="contiguous",
            tolerance=Tolerance(
                atol=4.0,
                rtol=0.1,
                rms=0.0135,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, 2 and 4 ranks, tiny, 8 calls. Honest "
                "programs (three roundings or one, transform or direct sum) err by at most 0.021 and 0.0045 rms. The "
                "cheapest cheats (streams in 8 bits, one scale per row) err by at least 0.114 and 0.021 rms. The "
                "largest error grows with the number of elements. At base, in 18 calls of 4.2 million elements, the "
                "reference's was 0.11: the gate multiplies what rounding left of a sum that cancels. At large, on 4 "
                "H200, 2 of 4.8 billion elements of an honest program exceeded 0.4. In a simulation of the three "
                "roundings over 50 million elements, 262, 19 and 2 exceeded 0.025, 0.05 and 0.1. That is a tail of "
                "about the power -3.3. The bound is so wide that fewer than one judgement in a hundred exceeds it, and "
                "the rms decides. At tiny a single element can make half of the rms: the reference's reached 0.0105 in "
                "some 28000 calls of a rank. The rms bound lies between that and the cheats.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: {"B": 2, "C": 16 * world_size, "G": 8 * world_size, "D": 2, "Ls": 48, "Lf": 80},
            system="a check on CPU ranks, two channels per filter",
        ),
        SizeName.BASE: Size(
            dims=fixed(B=1, C=_CHANNELS, G=_CHANNELS, D=1, Ls=2048, Lf=4096),
            system="the card's size: 1024 channels, 2048 positions per rank, filters of 4096 taps",
        ),
        SizeName.LARGE: Size(
            dims=large,
            system="Evo 2 7B (hidden size 4096, one long filter per channel) over 131072 bases",
        ),
    },
    cost=cost,
    counted_flops=Reading(least=0.0, most=0.0, reason="torch counts no operations in Fourier transforms."),
    refuses_world_size=divisors_of(_CHANNELS),
    world_size_rule="a power of two up to 1024",
    hops=(
        Hop(
            source="every rank",
            target="every rank",
            payload="its positions of the receiver's channels, three streams",
            pattern=Communication.ALL_TO_ALL,
        ),
        Hop(
            source="every rank",
            target="every rank",
            payload="the receiver's positions of its channels of the result",
            pattern=Communication.ALL_TO_ALL,
        ),
    ),
    regimes=(
        Regime(
            name="in_order",
            words="`with_zigzag_splitting` is False",
            settings={"zigzag": False},
            apart=("one_rank_has_values",),
            narrow="usual_numbers",
        ),
        Regime(
            name="channels_per_filter",
            words="a filter is for one channel or for four",
            settings={"group_dim": Among(options=("1", "4"))},
        ),
        Regime(
            name="short_filters",
            words="filters have 1 to 79 taps, often one, and every other channel may have no bias",
            settings={"biases": Among(options=("usual", "half_zero"))},
            dims={"Lf": Whole(low=1, high=79, often=(1, 1, 1, 15))},
            apart=("one_rank_has_values", "whole_filters", "odd_chunks", "low_plateau"),
        ),
        Regime(
            name="odd_chunks",
            words="chunks have other numbers of positions and channels, often odd or few, there are one or two "
            "sequences, and the first channel of x2_seq may be zero",
            settings={"first_gate": Among(options=("zero", "usual"))},
            dims={
                "B": Whole(low=1, high=2),
                "C": Extent(low=16, high=600),
                "Ls": Extent(low=24, high=120, of=2),
                "Lf": Extent(low=65, high=400),
            },
            derive=_whole_groups,
        ),
        Regime(
            name="whole_filters",
            words="filters are as long as the sequence",
            settings={"taps": "all"},
        ),
        Regime(
            name="low_plateau",
            words="filters are a tap of 1 and many below 2^-10 of one sign, and x2_seq and v_seq are not negative",
            settings={"filters": "plateau", "taps": "all", "plateau": Real(low=8e-5, high=6e-4, by_size=True)},
            dims={"Ls": 1024},
        ),
        Regime(
            name="huge_gates",
            words="x1_seq and x2_seq are around ten million, beyond float16, and filters and biases as much smaller",
            settings={"gates": "huge"},
            narrow="in_float16",
        ),
        *of_tensor("v_seq", TINY_VALUES, HUGE_VALUES, ZERO_VALUES),
        # Shorter filters would not reach every rank: what a transform rounds stands beside an exact zero there.
        also_larger(
            replace(
                ONE_RANK_HAS_VALUES,
                words="all values of v_seq are zero on every rank but one, and filters are as long as the sequence",
                settings={"values": "one_rank", "taps": "all"},
            )
        ),
        copied_values("z", words="gates are 1 and -1, biases are zero and filters have one tap that is 1"),
    ),
    invariants=(
        "Tensors are contiguous.",
        "Values of `x1_seq` and `v_seq` are at most 1e11 in size, of `x2_seq` 2e8, of filters and biases 10.",
        "What is not zero is 1e-28 at least in size.",
        "`group` is None, the world group.",
        "Filters have at least one tap and are never longer than the whole sequence of all ranks.",
        "The number of filters is a multiple of the world size, and a filter is for 1, 2 or 4 channels.",
        "A rank has an even number of positions, and all ranks have as many.",
        "There are one or two sequences.",
        "On up to 64 ranks the number of channels is a multiple of 16 times the world size.",
    ),
    axes=(
        Axis(
            name="positions per rank",
            symbol="Ls",
            unit="positions",
            values={SizeName.TINY: (24, 48, 96, 192), SizeName.BASE: (1024, 2048, 4096, 8192, 16_384)},
            fixed="one sequence, 1024 channels, filters of 4096 taps or as long as the sequence (80 on CPU ranks)",
            dims=at_length,
        ),
    ),
)
