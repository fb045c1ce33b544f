"""All-reduce of shared LoRA gradients in expert-parallel MoE, described."""

from problems.spec.ranges import Among, Extent
from problems.spec.regimes import SUMMED_VALUES, exact_sums
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

_SHAPES: dict[str, tuple[str, str]] = {
    "grad_fc1_1_lora_A": ("r", "N"),
    "grad_fc1_2_lora_A": ("r", "N"),
    "grad_fc2_lora_B": ("N", "r"),
}


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Three matrices are read and written once, and summed over all ranks."""
    elements = 3 * dims["r"] * dims["N"]
    share = (world_size - 1) / world_size
    wire = 2 * share * elements * element_bytes
    return Cost(
        flops={"fp32": share * elements},
        memory_bytes=2 * elements * element_bytes,
        wire_bytes=wire,
        reference_wire_bytes=wire,
        note="Assumes no reduction inside the network.",
    )


_WRITTEN = {f"{name} (in place)": name for name in _SHAPES}
"""The arguments that hold the sums after the call, by the names of these outputs."""

_TOLERANCE = Tolerance(
    atol=0.045,
    rtol=0.045,
    rms=0.01,
    calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, tiny, 2, 4 and 8 ranks, 6 calls. Honest programs "
    "(bfloat16 ring, backwards, one by one; float32) err by at most 0.0134 and 0.0054 rms. The cheapest cheats "
    "(payload in e4m3 or int8) err by at least 0.039 and 0.0195 rms. 2026-11-26, 8 ranks: one element once erred by "
    "0.0245; in 12 calls at most 0.014 and 0.0048 rms, int8 by at least 0.0397 rms. The rms decides.",
)


def _argument(name: str) -> Argument:
    return Argument(
        name=name,
        shape=_SHAPES[name],
        mutable=True,
        values="normal with a log-normal scale per element and a scale between 1/2 and 2 per rank; new on every rank "
        "and call",
    )


def _of_half_rank(dims: Dims, _world_size: int) -> Dims:
    """The dimensions of as many elements, where the low rank is half that of the size."""
    return {**dims, "r": dims["r"] // 2, "N": 2 * dims["N"]}


PROBLEM = Problem(
    number=30,
    slug="moe_epgroupgemm_lora_backward",
    title="All-reduce of shared LoRA gradients in expert-parallel MoE",
    summary="Three small gradients of low-rank weights, shared by all experts, are summed in place over the ranks.",
    origin="xorl (LoRA on expert-parallel grouped products, backward pass)",
    parallelism=(Parallelism.EXPERT,),
    communication=(Communication.ALL_REDUCE,),
    block=Block.GRADIENT,
    stage=(Stage.TRAINING,),
    domain=Domain.MOE_LLM,
    signature="solution(grad_fc1_1_lora_A: Tensor, grad_fc1_2_lora_A: Tensor, grad_fc2_lora_B: Tensor, "
    "group: ProcessGroup or None = None) -> (Tensor, Tensor, Tensor)",
    arguments=(
        *map(_argument, _SHAPES),
        WORLD_GROUP,
    ),
    outputs=(
        *(
            Output(name=name, shape=shape, placement=Placement.REPLICATED, tolerance=_TOLERANCE)
            for name, shape in _SHAPES.items()
        ),
        *(
            Output(
                name=written,
                shape=_SHAPES[name],
                placement=Placement.REPLICATED,
                tolerance=_TOLERANCE,
                argument=name,
            )
            for written, name in _WRITTEN.items()
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=fixed(r=8, N=160), system="a check on CPU ranks"),
        SizeName.BASE: Size(dims=fixed(r=8, N=1024), system="rank 8, hidden size 1024: 48 KiB in bfloat16"),
        SizeName.LARGE: Size(
            dims=fixed(r=256, N=7168),
            system="LoRA of rank 256 on the experts of one layer of DeepSeek-V3 (hidden size 7168)",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="every rank",
            target="every rank",
            payload="three matrices of r x N elements, summed",
            pattern=Communication.ALL_REDUCE,
        ),
    ),
    notes=("The products of the backward pass are not part of the problem: only the sum over ranks is.",),
    regimes=(
        *SUMMED_VALUES,
        Regime(
            name="sizes_apart",
            words="values of grad_fc1_1_lora_A are around ten million, those of grad_fc2_lora_B below 1e-4 in size",
            settings={"sizes": "apart"},
            dtypes=("bfloat16", "float32"),
        ),
        Regime(
            name="other_extents",
            words="the matrices have other extents, so that the ranks may not divide the number of elements",
            dims={"r": Extent(low=3, high=300), "N": Extent(low=129, high=4100)},
        ),
        Regime(
            name="as_many_elements",
            words="the matrices have as many elements as in timed calls of this size, and half the rank",
            derive=_of_half_rank,
            dims={"is_half": 1},
            narrow="tail_left_out",
            apart=("other_extents",),
        ),
        Regime(
            name="one_is_zero",
            words="one of the three gradients is zero, on all ranks or, with an s, on every second rank",
            settings={"zero": Among(options=("fc1_1", "fc1_2", "fc2", "fc1_1s", "fc1_2s", "fc2s"))},
            apart=("zero_values", "one_rank_has_values"),
        ),
        exact_sums(*_SHAPES, *_WRITTEN),
    ),
    invariants=(
        "The three tensors are contiguous.",
        "The low rank and `N` may be odd, and are the same on all ranks.",
        "Values are at most 5e17 in size, and nonzero ones at least 1e-24.",
        "`group` is None, the world group.",
    ),
)
