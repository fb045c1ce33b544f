"""Input-channel-parallel 3-D convolution + all-reduce, described."""

from collections.abc import Callable
from dataclasses import replace

from problems.families.one_rank_spec import also_larger
from problems.spec.ranges import Among
from problems.spec.regimes import HUGE_VALUES, ONE_RANK_HAS_VALUES, TINY_VALUES, ZERO_VALUES, exact_sums, of_tensor
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
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage
from problems.spec.world_sizes import divisors_of

CHANNELS = 512
TINY_CHANNELS = 32
KERNEL = 3


def _volume(*, channels: int, frames: int, height: int, width: int) -> Callable[[int], Dims]:
    """Output of `frames` x `height` x `width`; the input is larger by what an unpadded kernel takes."""

    def dims(world_size: int) -> Dims:
        return {
            "B": 1,
            "Co": channels,
            "Ci": channels // world_size,
            "Kk": KERNEL,
            "Ti": frames + KERNEL - 1,
            "Hi": height + KERNEL - 1,
            "Wi": width + KERNEL - 1,
            "To": frames,
            "Ho": height,
            "Wo": width,
        }

    return dims


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """As many operations as a convolution of the rank's channels to all output channels, wherever they are done.

    Every rank has to receive (W-1)/W of the result, unless it gets all operands and makes the whole result. Before that
    partial sums of its 1/W arrive. Or p ranks that share their channels each convolve 1/p of the positions. For these
    (p - 1)/p of the operands have to arrive, and partial sums of W/p ranks are added. Halos are left out.
    """
    inputs = dims["B"] * dims["Ci"] * dims["Ti"] * dims["Hi"] * dims["Wi"]
    weights = dims["Co"] * dims["Ci"] * dims["Kk"] ** 3
    outputs = dims["B"] * dims["Co"] * dims["To"] * dims["Ho"] * dims["Wo"]
    remote = (world_size - 1) / world_size
    summed = min(
        (1 - 1 / p) * (inputs + p * weights) + (1 - p / world_size) * outputs / p
        for p in range(1, world_size + 1)
        if world_size % p == 0
    )
    received = min(summed + remote * outputs, (world_size - 1) * (inputs + weights))
    return Cost(
        flops={"matmul": 2 * outputs * dims["Ci"] * dims["Kk"] ** 3},
        memory_bytes=element_bytes * (inputs + weights + dims["Co"] + outputs),
        wire_bytes=received * element_bytes,
        reference_wire_bytes=2 * remote * outputs * element_bytes,
        note="A rank may convolve all channels of its part of the video: their inputs are fewer bytes than partial "
        "sums. The reference all-reduces. Assumes no reduction inside the network.",
    )


PROBLEM = Problem(
    number=76,
    slug="opensora_conv3d_allreduce",
    title="Input-channel-parallel 3-D convolution + all-reduce",
    summary="Every rank convolves its slice of the input channels; the partial results are summed and biased once.",
    origin="Open-Sora (tensor-parallel channel-chunked 3-D convolution of the video autoencoder)",
    parallelism=(Parallelism.TENSOR,),
    communication=(Communication.ALL_REDUCE,),
    block=Block.CONVOLUTION,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.DIFFUSION_VIDEO,
    signature="solution(input: Tensor, weight: Tensor, bias: Optional[Tensor], stride: int or 3-tuple, "
    "padding: int or 3-tuple, dilation: int or 3-tuple, groups: int = 1, "
    "group: Optional[ProcessGroup] = None) -> Tensor",
    arguments=(
        Argument(
            name="input",
            shape=("B", "Ci", "Ti", "Hi", "Wi"),
            values="the rank's channels: normal, times a brightness per place that all ranks share (log-normal, one "
            "column in 60 glaring) and a scale of the rank's own between 1/2 and 2",
        ),
        Argument(
            name="weight",
            shape=("Co", "Ci", "Kk", "Kk", "Kk"),
            values="the rank's slice: normal, divided by the square root of all W Ci 27 products",
        ),
        Argument(
            name="bias", shape=("Co",), values="normal, a quarter as large as the sums it is added to", replicated=True
        ),
        Argument(name="stride", kind=ArgumentKind.INTEGER, values="1 in timed calls"),
        Argument(name="padding", kind=ArgumentKind.INTEGER, values="0 in timed calls"),
        Argument(name="dilation", kind=ArgumentKind.INTEGER, values="1 in timed calls"),
        Argument(name="groups", kind=ArgumentKind.INTEGER, values="1"),
        Argument(name="group", kind=ArgumentKind.GROUP, values="None: the world group"),
    ),
    outputs=(
        Output(
            name="out",
            shape=("B", "Co", "To", "Ho", "Wo"),
            placement=Placement.REPLICATED,
            tolerance=Tolerance(
                atol=0.12,
                rtol=0.12,
                rms=0.0075,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, tiny, 2 and 4 ranks, 8 calls. Honest "
                "programs (float32, frame by frame, bfloat16 sum backwards) err by at most 0.047 and 0.0038 rms. The "
                "cheapest cheats (8-bit payload, one scale per row) err by at least 0.058 and 0.0158 rms: the rms "
                "decides, at 4.2 times.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=_volume(channels=TINY_CHANNELS, frames=2, height=8, width=96), system="a smoke test on CPU ranks"
        ),
        SizeName.BASE: Size(dims=_volume(channels=CHANNELS, frames=17, height=64, width=64), system="the card's size"),
        SizeName.LARGE: Size(
            dims=_volume(channels=CHANNELS, frames=17, height=90, width=160),
            system="a convolution of 512 channels, as wide as any in Open-Sora's temporal autoencoder, on video of 720 "
            "x 1280 reduced 8 times in space, 17 frames at a time",
        ),
    },
    cost=cost,
    refuses_world_size=divisors_of(TINY_CHANNELS),
    world_size_rule="a power of two up to 32",
    hops=(
        Hop(
            source="every rank",
            target="every rank",
            payload="its partial result, summed: 2 (W-1)/W of B x Co x To x Ho x Wo elements",
            pattern=Communication.ALL_REDUCE,
        ),
    ),
    regimes=(
        Regime(name="stride_2", words="`stride` is 2", settings={"stride": 2}, at_large=False, narrow="usual_numbers"),
        Regime(
            name="padding_1",
            words="`padding` is 1, and the first bias, the first channel of input, the outermost rows and columns of "
            "its frames or nothing else is zero",
            settings={"padding": 1, "first_is_zero": Among(options=("bias", "channel", "edges", "none"))},
        ),
        Regime(
            name="dilation_2",
            words="`dilation` is 2",
            settings={"dilation": 2},
            at_large=False,
            narrow="usual_numbers",
        ),
        *of_tensor("input, weight and bias", replace(TINY_VALUES, narrow="arguments_in_float16"), HUGE_VALUES),
        replace(
            ZERO_VALUES,
            words="all values of weight are zero, on one rank or on all, or all of input and bias",
            settings={**ZERO_VALUES.settings, "zeros": Among(options=("weight", "weight on one", "input and bias"))},
        ),
        *of_tensor("input", also_larger(ONE_RANK_HAS_VALUES)),
        exact_sums("out"),
    ),
    invariants=(
        "Tensors are contiguous.",
        "Values of `input` are at most 1e11 in size, of `weight` 1e7, of `bias` 1e15; if not zero, 1e-25 at least.",
        "`group` is None, the world group.",
        "`bias` is a tensor.",
        "`stride` is 1 or 2, `padding` 0 or 1 and `dilation` 1 or 2, for all axes. Two at least are as in timed calls.",
        "`groups` is 1, B is 1, and the kernel has three taps along every axis.",
        "C_o is 32 or 512, and all ranks together have as many input channels, each rank as many.",
        "The result's frames, rows and columns are those of the size, and the input has just what these need.",
    ),
)
