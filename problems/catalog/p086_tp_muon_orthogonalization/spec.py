"""Tensor-parallel Muon orthogonalisation, described."""

from dataclasses import replace

from problems.spec.ranges import Among, Extent, Real
from problems.spec.regimes import (
    HUGE_VALUES,
    ONE_RANK_HAS_VALUES,
    TINY_VALUES,
    ZERO_VALUES,
    long_extent,
    of_tensor,
    other_extents,
)
from problems.spec.schema import (
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
    Tolerance,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

_STEPS, _MOST_STEPS = 5, 10


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """The first Gram matrix, two products of its size per step, and one product with the part.

    All later Gram matrices, and the factor of the part, are polynomials of the first. They are symmetric, so half of
    each product is enough, and their rows can be shared out over the ranks. Products count as tensor-core work, which
    reaches float32 in several parts of fewer bits. The least on the wire is the smaller of gathering the matrix once
    and reducing half of its first Gram matrix.
    """
    del element_bytes  # the matrix is bfloat16 whatever the run's dtype
    inner, own = (dims["rows"], dims["cl"]) if dims["partition_dim"] else (dims["cl"], dims["rows"])
    gram = 2 * (world_size - 1) / world_size * 4 * inner * inner
    return Cost(
        flops={"matmul": 3 * inner * inner * own + _STEPS * 2 * inner**3 / world_size},
        memory_bytes=2 * 2 * inner * own,
        wire_bytes=min((world_size - 1) * inner * own * 2, gram / 2),
        reference_wire_bytes=_STEPS * gram + 4,
        note="The reference reduces a whole Gram matrix in every step.",
    )


def _cut(*, rows: int, columns: int, partition_dim: int, is_quintic: bool, world_size: int) -> Dims:
    """The matrix (rows, columns), the sharded extent rounded up to a multiple of the world size."""
    cut = (columns if partition_dim else rows) + world_size - 1
    return {
        "rows": rows if partition_dim else cut // world_size,
        "cl": cut // world_size if partition_dim else columns,
        "partition_dim": partition_dim,
        "is_quintic": int(is_quintic),
    }


PROBLEM = Problem(
    number=86,
    slug="tp_muon_orthogonalization",
    title="Tensor-parallel Muon orthogonalisation (Newton-Schulz)",
    summary="Newton-Schulz iteration of a momentum matrix that is sharded over the ranks.",
    origin="NVIDIA Megatron-LM / NeMo Emerging-Optimizers (distributed Newton-Schulz of Muon)",
    parallelism=(Parallelism.TENSOR,),
    communication=(Communication.ALL_REDUCE,),
    block=Block.OPTIMIZER,
    stage=(Stage.TRAINING,),
    domain=Domain.LLM,
    signature="solution(x: Tensor, steps: int = 5, coefficient_type: str = 'quintic', partition_dim: int = 1, "
    "group: Optional[ProcessGroup] = None) -> Tensor",
    arguments=(
        Argument(
            name="x",
            shape=("rows", "cl"),
            dtype="bfloat16",
            values="normal, with a scale per rank between 1/2 and 2; the rank's columns (at tiny its rows)",
        ),
        Argument(
            name="steps",
            kind=ArgumentKind.INTEGER,
            dtype="int",
            values="in timed calls 5; at tiny 4 for 'aol'",
            replicated=True,
        ),
        Argument(
            name="coefficient_type",
            kind=ArgumentKind.TEXT,
            dtype="str",
            values="in timed calls 'quintic'; at tiny 'quintic', 'simple' or 'aol', drawn for every call",
            replicated=True,
        ),
        Argument(
            name="partition_dim",
            kind=ArgumentKind.INTEGER,
            dtype="int",
            values="in timed calls 1: columns are sharded; at tiny 0",
            replicated=True,
        ),
        WORLD_GROUP,
    ),
    outputs=(
        Output(
            name="out",
            shape=("rows", "cl"),
            dtype="bfloat16",
            placement=Placement.SHARDED,
            sharding="rank r holds the part of the matrix that its x is of",
            layout="contiguous",
            tolerance=Tolerance(
                atol=0.02,
                rtol=0.02,
                rms=0.004,
                calibration="2026-11-21, CPU, torch 2.13, gloo, 2 and 4 ranks. Honest programs (Gram matrix reduced in "
                "every step or once, gathered, float64) err by at most 0.003 and 0.0018 rms at tiny and base. The "
                "cheapest cheats (Gram matrices in 8 bits, iteration in bfloat16) err by at least 0.02 and 0.009 rms.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(
            dims=lambda world_size: _cut(rows=96, columns=64, partition_dim=0, is_quintic=False, world_size=world_size),
            system="a check on CPU ranks, the matrix cut by rows",
        ),
        SizeName.BASE: Size(
            dims=lambda world_size: _cut(
                rows=512, columns=512, partition_dim=1, is_quintic=True, world_size=world_size
            ),
            system="a matrix of 512 x 512",
        ),
        SizeName.LARGE: Size(
            dims=lambda world_size: _cut(
                rows=4096, columns=14_336, partition_dim=1, is_quintic=True, world_size=world_size
            ),
            system="the momentum of an MLP matrix of Llama 3.1 8B (4096 x 14336)",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="every rank",
            target="every rank",
            payload="the Gram matrix of its part, summed, in every step",
            pattern=Communication.ALL_REDUCE,
        ),
    ),
    counted_flops=Reading(
        least=2.5,
        most=5.0,
        reason="In every step the reference makes a Gram matrix of the whole part, on every rank its square, and "
        "multiplies it with the part. At tiny a call takes 4 steps or 5, drawn by the kind of coefficients; 5 are "
        "counted.",
    ),
    counted_wire=Reading(
        least=0.75,
        most=1.005,
        reason="At tiny a call takes 4 steps or 5, drawn by the kind of coefficients; 5 are counted, as at base "
        "and large.",
    ),
    regimes=(
        *of_tensor("x", replace(TINY_VALUES, narrow=""), HUGE_VALUES, ZERO_VALUES),
        *of_tensor("x", replace(ONE_RANK_HAS_VALUES, narrow="divides_by_the_largest")),
        other_extents(rows=Extent(high=260), cl=Extent(high=260)),
        replace(
            long_extent("tall_parts", rows=Extent(low=1025, high=5000), cl=Extent(high=20)),
            at_large=False,
            # Cut by columns, a Gram matrix would be as large as a part is tall.
            apart=("other_dimension",),
        ),
        Regime(
            name="below_the_floor",
            words="the norm of x is below 1e-9, and the least that x is divided by is 1e-7",
            settings={"scale": 2.0**-60},
            apart=("tiny_values", "huge_values"),
        ),
        Regime(
            name="near_the_floor",
            words="the norm of x is about the least that x is divided by",
            settings={"norm": Real(low=3e-8, high=3e-7, often=(1e-7,), by_size=True)},
            apart=("tiny_values", "huge_values", "below_the_floor", "one_direction"),
        ),
        Regime(
            name="one_direction",
            words="one direction of the matrix is so many times as large as all others together",
            settings={"one_direction": Real(low=1.0, high=16.0, by_size=True)},
        ),
        Regime(
            name="other_dimension",
            words="the matrix is cut along the other dimension than in timed calls",
            settings={"is_turned": True},
            at_large=False,
            narrow="usual_numbers",
        ),
        Regime(
            name="polar_express",
            words="coefficient_type is 'polar_express' and steps is 8",
            settings={"choice": "polar_express_8"},
            narrow="usual_numbers",
        ),
        Regime(
            name="two_rounds",
            words="coefficient_type is 'quintic' and steps is 10, twice through its coefficients",
            settings={"choice": "quintic_10"},
            narrow="usual_numbers",
        ),
        Regime(
            name="two_rounds_of_aol",
            words="coefficient_type is 'aol' and steps is 8, twice through its coefficients",
            settings={"choice": "aol_8"},
            narrow="usual_numbers",
        ),
        Regime(
            name="simple_steps",
            words="coefficient_type is 'simple' and steps another number",
            settings={"choice": Among(options=tuple(f"simple_{steps}" for steps in range(1, _MOST_STEPS + 1)))},
            narrow="usual_numbers",
        ),
    ),
    invariants=(
        "`x` is contiguous.",
        "The norm of the whole matrix is 0, or from 1e-25 to 1e13.",
        "Singular values are spread as in normal values; one may be up to 16 times as large as all others together.",
        "`group` is the world group.",
        "Every rank has a part of the same extents, which may be odd.",
        "`partition_dim` is 0 or 1, and `coefficient_type` one of the four.",
        f"`steps` is a multiple of the number of coefficients of its type, from 1 to {_MOST_STEPS}.",
    ),
)
