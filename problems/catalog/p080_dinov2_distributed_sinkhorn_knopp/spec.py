"""Distributed Sinkhorn-Knopp normalisation of teacher assignments, described."""

from dataclasses import replace

from problems.spec.ranges import Extent, Real, Whole
from problems.spec.regimes import ONE_RANK_HAS_VALUES, ZERO_VALUES, long_extent
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


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """Exponentials once, then a few operations per element and round; logits read once, the assignment written once.

    Each round needs the sum over all samples for every prototype: an all-reduce of Kp float32 numbers, no reduction
    inside the network. The reference's two scalars cancel from the result and need not travel.
    """
    del element_bytes  # everything is in float32
    samples, prototypes, rounds = dims["b"], dims["Kp"], dims["rounds"]
    ring = 2 * (world_size - 1) / world_size
    wire = rounds * ring * 4 * prototypes
    return Cost(
        flops={"fp32": (3 + 4 * rounds) * samples * prototypes},
        memory_bytes=8 * samples * prototypes,
        wire_bytes=wire,
        reference_wire_bytes=wire + 2 * ring * 4,
        note="Memory counts one read and one write: the rounds act on two vectors of scalings. "
        "Assumes no reduction inside the network.",
    )


PROBLEM = Problem(
    number=80,
    slug="dinov2_distributed_sinkhorn_knopp",
    title="Distributed Sinkhorn-Knopp normalisation of teacher assignments",
    summary="Alternating normalisation of an assignment over prototypes and samples, samples split over ranks.",
    origin="DINOv2 (iBOT patch loss, Sinkhorn-Knopp teacher)",
    parallelism=(Parallelism.DATA,),
    communication=(Communication.ALL_REDUCE,),
    block=Block.LOSS,
    stage=(Stage.TRAINING,),
    domain=Domain.VISION,
    signature="solution(teacher_output: Tensor, teacher_temp: float, n_masked_patches_tensor: Tensor, "
    "n_iterations: int = 3, group: Optional[ProcessGroup] = None) -> Tensor",
    arguments=(
        Argument(
            name="teacher_output",
            shape=("b", "Kp"),
            dtype="float32",
            values="normal (0.15), plus a popularity per prototype that all ranks share and an offset per sample "
            "(0.08 each): divided by the temperature, logits spread by more than 2",
        ),
        Argument(name="teacher_temp", kind=ArgumentKind.REAL, values="0.07 in timed calls"),
        Argument(
            name="n_masked_patches_tensor",
            shape=(1,),
            dtype="int64",
            values="a count between b/2 and b; it cancels from the result",
        ),
        Argument(name="n_iterations", kind=ArgumentKind.INTEGER, values="3 in timed calls"),
        Argument(name="group", kind=ArgumentKind.GROUP, values="None: the world group"),
    ),
    outputs=(
        Output(
            name="q",
            shape=("b", "Kp"),
            dtype="float32",
            placement=Placement.PER_RANK,
            layout="contiguous",
            tolerance=Tolerance(
                atol=1e-5,
                rtol=1e-4,
                rms=2e-5,
                calibration="2026-11-21, CPU, torch 2.13, gloo, float32, tiny, 2 and 4 ranks, 3 calls. Honest programs "
                "(float64, scalings of a fixed matrix, gathered logarithms) err by at most 1.2e-6 of an element's size "
                "and 2.7e-7 rms. The cheapest cheat (sums over samples in bfloat16) errs by at least 5.7e-3 and 2e-3 "
                "rms, a round too many by 0.037 and 0.008 rms.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=fixed(b=48, Kp=256, rounds=3), system="a smoke test on CPU ranks"),
        SizeName.BASE: Size(dims=fixed(b=1024, Kp=16384, rounds=3), system="the card's size"),
        SizeName.LARGE: Size(
            dims=fixed(b=2456, Kp=131072, rounds=3),
            system="DINOv2 ViT-L/14: 131072 prototypes; 32 images per GPU, two global crops of 256 patches, of which "
            "15 % are masked on average",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="every rank",
            target="every rank",
            payload="its sum over samples for every prototype, added up, once per round",
            pattern=Communication.ALL_REDUCE,
        ),
    ),
    mutants_not_applicable={
        "stale_argument:n_masked_patches_tensor": "the count is divided out and multiplied back: it cancels",
    },
    notes=("The first normalisation by the total and the count of samples cancel from the result.",),
    regimes=(
        Regime(
            name="cold",
            words="`teacher_temp` is from 0.04 to below 0.07",
            settings={"temperature": Real(low=0.04, high=0.069)},
            narrow="usual_numbers",
        ),
        Regime(
            name="one_counts_nothing",
            words="`n_masked_patches_tensor` is 0 on one rank",
            settings={"count": "none_on_one"},
        ),
        Regime(
            name="few_rounds",
            words="`n_iterations` is 1 or 2",
            settings={"rounds": Whole(low=1, high=2)},
            narrow="usual_numbers",
        ),
        Regime(
            name="many_rounds",
            words="`n_iterations` is 4 or more, and logits are `part` of their usual size: late rounds change little",
            settings={
                "rounds": Whole(low=4, high=10, often=(8, 9, 10)),
                "part": Real(low=0.6, high=1.0, often=(0.7, 0.75, 0.8)),
            },
            narrow="usual_numbers",
        ),
        Regime(
            name="odd_sizes",
            words="b and K are other numbers than usual, small ones or no multiples of a tile",
            dims={"b": Extent(high=1100), "Kp": Extent(low=2, high=300)},
        ),
        replace(
            long_extent("long_rows", b=Extent(high=7), Kp=Extent(low=4096, high=70_001)),
            # Scalings shrink by N / K in every round, and float32 sums of equal numbers all err to one side.
            apart=("many_rounds", "zero_values"),
        ),
        Regime(
            name="one_far",
            words="one prototype is farther from all samples than the others, by a factor of about e to the 72",
            settings={"prototypes": "one_far"},
            dims={"b": Whole(low=2, high=8), "Kp": Whole(low=2, high=40)},
            # Scalings shrink by N / K in every round, and one of them begins near the end of float32's range.
            apart=("many_rounds",),
        ),
        replace(ZERO_VALUES, narrow="nothing_where_zero"),
        replace(ONE_RANK_HAS_VALUES, words="all logits are zero on every rank but one"),
    ),
    invariants=(
        "Tensors are contiguous.",
        "`group` is None, the world group.",
        "Logits divided by the temperature lie between -40 and 40, so their exponentials are float32 numbers.",
        "Of the sum of all exponentials, those of a prototype make up 1e-34 at least.",
        "`n_iterations` is from 1 to 10, and `teacher_temp` lies between 0.04 and 0.07.",
        "Where a prototype makes up less than 1e-16 of the sum, `n_iterations` is at most 3.",
        "Every rank has as many samples b; b and the number of prototypes K may be odd.",
        "`n_masked_patches_tensor` is 0 on one rank at most, and elsewhere from half of b, rounded down, to b.",
    ),
)
