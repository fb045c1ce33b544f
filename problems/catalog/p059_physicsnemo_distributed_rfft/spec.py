"""Distributed 2-D real FFT, described."""

from collections.abc import Callable
from math import log2

from problems.families.fields_spec import sizes_by_field, two_sizes, with_a_zero_field
from problems.spec.ranges import Among, Extent, Whole
from problems.spec.regimes import FLOAT32_VALUES, long_extent, other_extents
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
    Regime,
    Size,
    SizeName,
    Tolerance,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """A transform of the complete axis, a transposition of complex numbers, a transform of the other axis.

    5 n log2 n operations per complex transform of length n and half of it for real input (the usual FFT count). A rank
    returns as many real numbers as it holds (half of each row's spectrum), and other ranks' columns decide them all: so
    many have to arrive. Rows come in pairs, k and H - k, of which one determines the other. A rank that transforms one
    of them for both needs fewer bytes than the reference's complex columns of every row.
    """
    del element_bytes  # the transform is in float32 whatever the run's dtype
    batch, rows, columns, own = dims["B"], dims["H"], dims["L"], dims["Ll"]
    return Cost(
        flops={
            "fp32": 2.5 * batch * own * rows * log2(rows) + 2.5 * batch * dims["Hl"] * columns * log2(columns),
        },
        memory_bytes=4 * batch * rows * own + 8 * batch * dims["Hl"] * dims["Lh"],
        wire_bytes=4 * batch * rows * own,
        reference_wire_bytes=8 * (world_size - 1) / world_size * batch * rows * own,
        note="Only half of the second transform is kept, so half of its operations are counted. On the wire, as many "
        "real numbers as a rank returns; the reference sends complex ones.",
    )


def _slabs(*, B: int, H: int, L: int) -> Callable[[int], Dims]:
    return lambda world_size: _cut({"B": B, "H": H, "L": L}, world_size)


def _cut(dims: Dims, world_size: int) -> Dims:
    """All dimensions, H and L rounded up to multiples of the world size."""
    rows, columns = (-(-dims[name] // world_size) * world_size for name in ("H", "L"))
    return {
        "B": dims["B"],
        "H": rows,
        "L": columns,
        "Ll": columns // world_size,
        "Hl": rows // world_size,
        "Lh": columns // 2 + 1,
    }


def _cut_long(dims: Dims, world_size: int) -> Dims:
    """All dimensions of fields that are long along one axis, `long`, which is H where they are tall."""
    rows, columns = ("long", "short") if dims["is_tall"] else ("short", "long")
    return _cut({"B": dims["B"], "H": dims[rows], "L": dims[columns]}, world_size)


_TOLERANCE = Tolerance(
    atol=7e-5,
    rtol=0.0,
    rms=1.5e-5,
    calibration="2026-11-21, CPU, torch 2.13, gloo, float32, 2 and 4 ranks, tiny. Honest programs err by "
    "at most 7.5e-7 and 1.4e-7 rms of the output's size. The cheapest cheat (fields rounded to bfloat16 on "
    "the wire) errs by at least 6.5e-3 and 1.6e-3 rms.",
)


PROBLEM = Problem(
    number=59,
    slug="physicsnemo_distributed_rfft",
    title="Distributed 2-D real FFT (slab decomposition)",
    summary="Two-dimensional real-to-complex FFT of fields sharded along the last axis.",
    origin="NVIDIA PhysicsNeMo (distributed FFT utilities for model-parallel AFNO/FNO)",
    parallelism=(Parallelism.SPATIAL,),
    communication=(Communication.ALL_TO_ALL,),
    block=Block.FFT,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.SCIENCE,
    signature="solution(x: Tensor, s: Sequence[int], dim: Sequence[int], norm: str = 'ortho', "
    "group: Optional[ProcessGroup] = None) -> Tensor",
    arguments=(
        Argument(
            name="x",
            shape=("B", "H", "Ll"),
            dtype="float32",
            values="long-tailed fields; the rank's columns r*Ll to (r+1)*Ll - 1",
        ),
        Argument(name="s", kind=ArgumentKind.INTEGERS, dtype="int", values="(H, L), the global sizes"),
        Argument(
            name="dim",
            kind=ArgumentKind.INTEGERS,
            dtype="int",
            values="the axis that is complete here, and the sharded one: in timed calls (1, 2)",
        ),
        Argument(name="norm", kind=ArgumentKind.TEXT, dtype="str", values="'ortho' in timed calls"),
        WORLD_GROUP,
    ),
    outputs=(
        Output(
            name="out",
            shape=("B", "Hl", "Lh"),
            dtype="complex64",
            placement=Placement.SHARDED,
            sharding="rank r holds frequency rows r*H/W to (r+1)*H/W - 1",
            tolerance=_TOLERANCE,
            layout="contiguous",
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=_slabs(B=3, H=32, L=48), system="a check on CPU ranks"),
        SizeName.BASE: Size(dims=_slabs(B=16, H=1024, L=1024), system="16 fields of 1024 x 1024"),
        SizeName.LARGE: Size(
            dims=_slabs(B=384, H=720, L=1440),
            system="a 0.25 degree global weather grid (720 x 1440) with 384 channels, the embedding dimension of "
            "spherical Fourier neural operators trained on ERA5",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="rank r",
            target="rank d",
            payload="the transformed rows that rank d keeps, complex",
            pattern=Communication.ALL_TO_ALL,
        ),
    ),
    regimes=(
        Regime(
            name="norm_backward", words="`norm` is 'backward'", settings={"norm": "backward"}, narrow="usual_numbers"
        ),
        Regime(name="norm_forward", words="`norm` is 'forward'", settings={"norm": "forward"}, narrow="usual_numbers"),
        Regime(
            name="axes_from_the_end",
            words="`dim` counts the complete axis, the sharded one or both from the end: -2 or -1",
            settings={"from_end": Among(options=("complete", "sharded", "both"))},
        ),
        *FLOAT32_VALUES,
        sizes_by_field(_TOLERANCE),
        two_sizes(_TOLERANCE, batch="B"),
        with_a_zero_field(
            other_extents(B=Extent(high=140), H=Extent(low=2, high=96), L=Extent(low=2, high=160), derive=_cut)
        ),
        long_extent(
            "long_rows",
            B=Extent(high=2),
            short=Extent(low=8, high=24, of=8),
            long=Extent(low=2000, high=4096, of=8),
            is_tall=Whole(low=0, high=1),
            derive=_cut_long,
        ),
    ),
    invariants=(
        "Tensors are contiguous.",
        "The sizes of all values of a field add up to 1e36 at most.",
        "A field is zero, or its largest value is 1e-33 at least in size.",
        "`group` is None, the world group.",
        "`s` is the size of the fields. H and L are multiples of the world size, whatever their prime factors.",
        "Fields of one batch may be of very different sizes, by a factor of up to 1e50.",
        "Tensors have the same shapes on all ranks.",
    ),
)
