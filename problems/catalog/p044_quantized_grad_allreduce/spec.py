"""All-reduce mean of block-wise int8-quantised gradients, described."""

from problems.spec.ranges import Extent, Whole
from problems.spec.regimes import SUMMED_VALUES
from problems.spec.schema import (
    ALL_OTHERS,
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
    Tolerance,
    fixed,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

GPT2_XL_LAYER = 12 * 1600**2 + 13 * 1600
"""Parameters of one layer of GPT-2 XL (hidden size 1600, four times that in the MLP, biases, two layer norms)."""

_OF_FEW = Tolerance(
    atol=0.05,
    rtol=0.05,
    rms=0.05,
    calibration="One code more or less is a 127th of the largest magnitude, and may be one of very few elements.",
)


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """The gradient is read once and the mean written once.

    On the wire codes and steps travel: to every rank, or to the owner of a slice, who hands out the rounded mean,
    whichever is less.
    """
    length, share = dims["n_el"], (world_size - 1) / world_size
    coded = length * (1 + 4 / dims["block_size"])
    return Cost(
        flops={"fp32": 8 * length},
        memory_bytes=2 * length * element_bytes,
        wire_bytes=min((world_size - 1) * coded, share * (coded + length * element_bytes)),
        reference_wire_bytes=2 * share * length * 4,
        note="A fast program sends 8-bit codes with a float32 step per block; the reference reconstructs first and "
        "sends float32.",
    )


def other_end(dims: Dims, _world_size: int) -> Dims:
    """The number of elements where a regime sets how many are missing in the last block."""
    blocks = -(-dims["n_el"] // dims["block_size"])
    return {**dims, "n_el": blocks * dims["block_size"] - dims["missing"]}


PROBLEM = Problem(
    number=44,
    slug="quantized_grad_allreduce",
    title="All-reduce mean of block-wise int8-quantised gradients",
    summary="Every rank rounds its gradient to int8 in blocks; the reconstructions are averaged, with the mean on "
    "every rank.",
    origin=None,
    parallelism=(Parallelism.DATA,),
    communication=(Communication.ALL_REDUCE,),
    block=Block.QUANTIZATION,
    stage=(Stage.TRAINING,),
    domain=Domain.GENERIC,
    signature="solution(flat_grad: Tensor, block_size: int) -> Tensor",
    arguments=(
        Argument(
            name="flat_grad",
            shape=("n_el",),
            values="normal, up to three elements per block 30 to 50 times as large, a scale between 1/4 and 4 per "
            "block; about 5 % of the blocks are zero; different on every rank",
        ),
        Argument(
            name="block_size",
            kind=ArgumentKind.INTEGER,
            dtype="int",
            values="in timed calls 128; 32 at tiny and 256 at large, where the last block is incomplete",
            replicated=True,
        ),
    ),
    outputs=(
        Output(
            name="out",
            shape=("n_el",),
            placement=Placement.REPLICATED,
            tolerance=Tolerance(
                atol=0.0085,
                rtol=0.0085,
                rms=0.0035,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16. At tiny, 2 and 4 ranks, 10 calls. Honest "
                "programs (codes on the wire, reciprocals, scattered) err by at most 0.0031 and 0.0019 rms. The "
                "cheapest cheats (no quantisation, blocks of half the length) err by at least 0.022 and 0.0063 rms. At "
                "base, 4 ranks, 2 calls: honest 0.0035 and 0.0017 rms, cheats 0.084 and 0.013 rms.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=fixed(n_el=1500, block_size=32), system="a check on CPU ranks; the last block is incomplete"
        ),
        SizeName.BASE: Size(dims=fixed(n_el=1_048_576, block_size=128), system="a gradient of 2 MiB in bfloat16"),
        SizeName.LARGE: Size(
            dims=fixed(n_el=GPT2_XL_LAYER, block_size=256),
            system="the gradient of one layer of GPT-2 XL (hidden size 1600, 30.7 million parameters), reduced as soon "
            "as its backward pass is done",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="every rank",
            target="every rank",
            payload="its int8 codes and a float32 step per block, added up on arrival",
            pattern=Communication.ALL_REDUCE,
        ),
    ),
    fewer_bits="The values are 8-bit integers under one scale per block by definition, and their codes may travel.",
    regimes=(
        *SUMMED_VALUES[:-1],  # blocks of zeros are usual here
        Regime(
            name="below_the_floor",
            words="all values are below 1e-8, the least magnitude that a step is made of",
            settings={"scale": 2.0**-36},
            apart=("tiny_values", "huge_values"),
        ),
        Regime(
            name="around_the_floor",
            words="the largest magnitude of some blocks is below 1e-8, of others above",
            settings={"scale": 2.0**-33},
            apart=("tiny_values", "huge_values"),
            dtypes=("bfloat16", "float32"),
        ),
        Regime(
            name="halves",
            words="steps are powers of two, and all values but the largest of a block lie half-way between two levels",
            settings={"halves": True},
        ),
        Regime(
            name="other_block_size",
            words="block_size is another one, and the last block may be incomplete",
            dims={"n_el": Extent(low=1500, high=5000), "block_size": Extent(low=3, high=519)},
        ),
        Regime(
            name="whole_blocks",
            words="block_size is 35, the last block is complete and the number of blocks is odd",
            dims={"n_el": 735, "block_size": 35},
        ),
        # After a timed call: what that left behind the end must not count in the last block.
        Regime(
            name="other_end",
            words="there are as many blocks as in timed calls, and so many elements are missing in the last one",
            dims={"missing": Whole(low=1, high=31)},
            apart=("other_block_size", "whole_blocks", "long_blocks", "one_block", "few_elements"),
            derive=other_end,
        ),
        Regime(
            name="long_blocks",
            words="block_size is beyond 512, and the largest magnitude of a block lies anywhere in it, often the end",
            dims={"n_el": Extent(low=33_000, high=70_000), "block_size": Whole(low=520, high=2048)},
        ),
        Regime(
            name="many_blocks",
            words="there are more than 65,536 blocks, more than 16 bits can number",
            dims={"n_el": Extent(low=197_000, high=210_000), "block_size": 3},
            at_large=False,
            narrow="tail_left_out",
            apart=(ALL_OTHERS,),
        ),
        Regime(
            name="one_block",
            words="the gradient is shorter than one block",
            dims={"n_el": Whole(low=65, high=900), "block_size": Whole(low=901, high=2048)},
            tolerances={"out": _OF_FEW},
        ),
        Regime(
            name="same_on_all_ranks",
            words="all ranks have the same gradient",
            settings={"same": True},
            apart=("one_rank_has_values",),
            hides=True,
        ),
        Regime(
            name="few_elements",
            words="the gradient has 1 to 9 elements",
            dims={"n_el": Whole(low=1, high=9), "block_size": 16},
            tolerances={"out": _OF_FEW},
            hides=True,
        ),
    ),
    invariants=(
        "`flat_grad` is a contiguous vector in bfloat16, of the same length on all ranks.",
        "Values are at most 2e10 in size, and nonzero ones at least 1e-20.",
        "`block_size` is from 3 to 2048. It need not be a multiple of anything, and may exceed the length.",
    ),
)
