"""Patch-parallel 2-D convolution with halo exchange, described."""

from dataclasses import replace

from problems.families.one_rank_spec import also_larger
from problems.spec.ranges import Among, Extent
from problems.spec.regimes import HUGE_VALUES, ONE_RANK_HAS_VALUES, TINY_VALUES, ZERO_VALUES, copied_values, of_tensor
from problems.spec.schema import (
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

LATENT_ROWS = 480
"""Rows of SDXL's latent for an image of 3840 x 3840 (its autoencoder reduces by 8)."""


def base(world_size: int) -> Dims:
    """The card's formulas at M = N = 1024."""
    return {"B": 1, "C": 1280, "hl": max(3, 128 // max(1, world_size // 2)), "wd": 128}


def large(world_size: int) -> Dims:
    """A convolution of the first level of SDXL's U-Net, guided and unguided sample together."""
    return {"B": 2, "C": 320, "hl": -(-LATENT_ROWS // world_size), "wd": LATENT_ROWS}


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """A 3 x 3 convolution of C to C channels on the rank's strip.

    A strip between two others receives one row from each of them; with two ranks there is one neighbour only. The
    reference gathers the two edge rows of everybody.
    """
    batch, channels, rows, columns = (dims[name] for name in ("B", "C", "hl", "wd"))
    row = batch * channels * columns * element_bytes
    return Cost(
        flops={"matmul": 2 * batch * channels * channels * 9 * rows * columns},
        memory_bytes=2 * rows * row + element_bytes * (9 * channels * channels + channels),
        wire_bytes=min(2, world_size - 1) * row,
        reference_wire_bytes=2 * (world_size - 1) * row,
        note="Only the neighbours' nearest rows are needed; the reference gathers the edge rows of all ranks.",
    )


PROBLEM = Problem(
    number=87,
    slug="conv2d_boundary_exchange",
    title="Patch-parallel 2-D convolution with halo exchange",
    summary="An image in horizontal strips over ranks, convolved as a whole: edge rows come from the neighbours.",
    origin="DistriFusion (distrifuser, patch-parallel convolution of diffusion U-Nets)",
    parallelism=(Parallelism.SPATIAL,),
    communication=(Communication.ALL_GATHER,),
    block=Block.CONVOLUTION,
    stage=(Stage.INFERENCE,),
    domain=Domain.VISION,
    signature="solution(x: Tensor, weight: Tensor, bias: Optional[Tensor], stride: int = 1, padding: int = 1, "
    "group: Optional[ProcessGroup] = None) -> Tensor",
    arguments=(
        Argument(name="x", shape=("B", "C", "hl", "wd"), values="long-tailed; the rank's strip of the image"),
        Argument(
            name="weight",
            shape=("C", "C", 3, 3),
            values="normal, divided by the square root of 9 C",
            replicated=True,
        ),
        Argument(name="bias", shape=("C",), values="normal, as large as the sums it is added to", replicated=True),
        Argument(name="stride", kind=ArgumentKind.INTEGER, values="1 in timed calls"),
        Argument(name="padding", kind=ArgumentKind.INTEGER, values="1"),
        Argument(name="group", kind=ArgumentKind.GROUP, values="None: the world group"),
    ),
    outputs=(
        Output(
            name="out",
            shape=("B", "C", "hl", "wd"),
            placement=Placement.SHARDED,
            sharding="rank r holds rows r*hl to (r+1)*hl - 1 of the image",
            tolerance=Tolerance(
                atol=0.016,
                rtol=0.016,
                rms=0.0037,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, tiny, 2 and 4 ranks, 3 calls. Honest "
                "programs (whole image, edges last, unfolded product with two roundings) err by at most 0.0058 and "
                "0.0022 rms. The cheapest cheat (halo through float8, one scale per row) errs by at least 0.042 and "
                "0.0053 rms, int8 by 0.076. The maximum decides: halo rows are few at the larger sizes.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=fixed(B=2, C=32, hl=4, wd=48), system="a smoke test on CPU ranks"),
        SizeName.BASE: Size(dims=base, system="the card's size"),
        SizeName.LARGE: Size(
            dims=large,
            system="SDXL under patch parallelism, image of 3840 x 3840: latent of 480 x 480, 320 channels at the first "
            "level of the U-Net, two samples for classifier-free guidance",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="every rank",
            target="the ranks above and below (the baseline: all)",
            payload="its first and its last row, all channels",
            pattern=Communication.ALL_GATHER,
        ),
    ),
    notes=(
        "Weights and bias are the same on all ranks, as in the model.",
        "Only edge rows depend on other ranks: one row in hl/2.",
    ),
    regimes=(
        Regime(name="stride_2", words="`stride` is 2", settings={"stride": 2}, at_large=False, narrow="usual_numbers"),
        Regime(
            name="few_rows",
            words="strips of the result have so many rows; the first bias, the first channel of x or nothing is zero; "
            "the image's first or last row, which no other rank needs, may be 2^20 times as large",
            settings={
                "first_is_zero": Among(options=("bias", "channel", "none")),
                "larger_row": Among(options=("first", "last", "none")),
            },
            dims={"hl": Extent(low=2, high=40)},
        ),
        *of_tensor("x, weight and bias", replace(TINY_VALUES, narrow="arguments_in_float16"), HUGE_VALUES),
        replace(
            ZERO_VALUES,
            words="all values of weight are zero, or all of x and bias",
            settings={**ZERO_VALUES.settings, "zeros": Among(options=("weight", "x and bias"))},
        ),
        *of_tensor("x", also_larger(ONE_RANK_HAS_VALUES)),
        copied_values("out", words="biases are zero and each channel is one of x, moved up or down"),
    ),
    invariants=(
        "Tensors are contiguous.",
        "Values of `x` are at most 1e17 in size, of `weight` 1e7, of `bias` 2e15; what is not zero is 1e-25 at least.",
        "`group` is None, the world group.",
        "`bias` is a tensor.",
        "All ranks' strips of the result have the same number of rows, two at least.",
        "C is 32, 320 or 1280, and B and w are those of the size.",
        "The kernel is 3 x 3.",
        "`stride` is 1 or 2, `padding` is 1, and strips have as many rows and columns as `stride` divides.",
    ),
)
