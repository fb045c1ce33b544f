"""Distributed inverse 2-D real FFT, described."""

from collections.abc import Callable
from math import lcm, log2

from problems.families.fields_spec import sizes_by_field, two_sizes, with_a_zero_field
from problems.spec.ranges import Extent, Whole
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
from problems.spec.world_sizes import divisors_of


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """A real transform of one axis, a transposition of what is still complex, a transform of the other axis.

    5 n log2 n operations per complex transform of length n and half of it for real output (the usual FFT count). A
    rank's columns depend on all rows. Each row gives a rank L/W real numbers per complex row that it lacks: half of
    what the reference sends, which is complex.
    """
    del element_bytes  # the transform is in float32 whatever the run's dtype
    batch, rows, columns = dims["B"] * dims["C"], dims["H"], dims["L"]
    moved = 4 * (world_size - 1) / world_size * batch * rows * dims["Ll"]
    return Cost(
        flops={
            "fp32": 2.5 * batch * dims["Hl"] * columns * log2(columns) + 2.5 * batch * dims["Ll"] * rows * log2(rows),
        },
        memory_bytes=8 * batch * dims["Hl"] * dims["K"] + 4 * batch * rows * dims["Ll"],
        wire_bytes=moved,
        reference_wire_bytes=2 * moved,
        note="Least: real numbers, as many as a rank returns. The reference sends complex ones.",
    )


def _slabs(*, B: int, C: int, H: int, L: int) -> Callable[[int], Dims]:
    return lambda world_size: _cut({"B": B, "C": C, "H": H, "L": L}, world_size)


def _cut(dims: Dims, world_size: int) -> Dims:
    """All dimensions, H and L rounded up to even multiples of the world size."""
    unit = lcm(2, world_size)
    rows, columns = (-(-dims[name] // unit) * unit for name in ("H", "L"))
    return {
        "B": dims["B"],
        "C": dims["C"],
        "H": rows,
        "L": columns,
        "K": columns // 2 + 1,
        "Hl": rows // world_size,
        "Ll": columns // world_size,
    }


def _cut_long(dims: Dims, world_size: int) -> Dims:
    """All dimensions of fields that are long along one axis, `long`, which is H where they are tall."""
    rows, columns = ("long", "short") if dims["is_tall"] else ("short", "long")
    return _cut({"B": dims["B"], "C": dims["C"], "H": dims[rows], "L": dims[columns]}, world_size)


_TOLERANCE = Tolerance(
    atol=2e-4,
    rtol=1e-5,
    rms=1.5e-5,
    calibration="2026-11-21, CPU, torch 2.13, gloo, float32, 2 and 4 ranks, tiny. Honest programs err by "
    "at most 5.7e-6 and 1.7e-7 rms of the output's size. The cheapest cheat (spectra rounded to bfloat16 "
    "on the wire) errs by at least 7e-3 and 1.7e-3 rms. At base, 2 ranks: honest 3.2e-5 and 1.8e-7 rms, at "
    "the largest values, which are hundreds of times the rms and err in proportion.",
)


PROBLEM = Problem(
    number=60,
    slug="physicsnemo_distributed_irfft",
    title="Distributed inverse 2-D real FFT",
    summary="Inverse of the two-dimensional real FFT for half spectra sharded by rows; fields sharded by columns.",
    origin="NVIDIA PhysicsNeMo (distributed inverse FFT utilities)",
    parallelism=(Parallelism.SPATIAL,),
    communication=(Communication.ALL_TO_ALL,),
    block=Block.FFT,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.SCIENCE,
    signature="solution(x: Tensor, s: Optional[Sequence[int]], dim: Sequence[int], norm: str = 'ortho', "
    "group: Optional[ProcessGroup] = None) -> Tensor",
    arguments=(
        Argument(
            name="x",
            shape=("B", "C", "Hl", "K"),
            dtype="complex64",
            values="the real FFT of long-tailed fields, so a consistent half spectrum; rows r*Hl to (r+1)*Hl - 1",
        ),
        Argument(
            name="s",
            kind=ArgumentKind.INTEGERS,
            dtype="int",
            values="(H, L), the fields' size",
            replicated=True,
        ),
        Argument(
            name="dim",
            kind=ArgumentKind.INTEGERS,
            dtype="int",
            values="the sharded axis, and the one of which half is stored: in timed calls (-2, -1)",
            replicated=True,
        ),
        Argument(name="norm", kind=ArgumentKind.TEXT, dtype="str", values="'ortho' in timed calls", replicated=True),
        WORLD_GROUP,
    ),
    outputs=(
        Output(
            name="out",
            shape=("B", "C", "H", "Ll"),
            dtype="float32",
            placement=Placement.SHARDED,
            sharding="rank r holds columns r*L/W to (r+1)*L/W - 1",
            tolerance=_TOLERANCE,
            layout="contiguous",
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=_slabs(B=2, C=2, H=48, L=96), system="a check on CPU ranks"),
        SizeName.BASE: Size(
            dims=_slabs(B=2, C=10, H=720, L=1440), system="20 fields on a 0.25 degree global weather grid"
        ),
        SizeName.LARGE: Size(
            dims=_slabs(B=1, C=384, H=720, L=1440),
            system="a 0.25 degree global weather grid (720 x 1440) with 384 channels, the embedding dimension of "
            "spherical Fourier neural operators trained on ERA5",
        ),
    },
    cost=cost,
    refuses_world_size=divisors_of(48, needs="at least 2 ranks, a divisor of 48 (as of 720 and 1440)"),
    world_size_rule="a divisor of 48",
    hops=(
        Hop(
            source="rank r",
            target="rank d",
            payload="the half-transformed columns that rank d keeps, complex",
            pattern=Communication.ALL_TO_ALL,
        ),
    ),
    notes=("The mirrored rows of other ranks are never needed: only the real part of the result is asked for.",),
    regimes=(
        Regime(
            name="norm_backward", words="`norm` is 'backward'", settings={"norm": "backward"}, narrow="usual_numbers"
        ),
        Regime(name="norm_forward", words="`norm` is 'forward'", settings={"norm": "forward"}, narrow="usual_numbers"),
        Regime(name="axes_from_the_front", words="`dim` is (2, 3)", settings={"dim": (2, 3)}),
        *FLOAT32_VALUES[:3],
        Regime(
            name="first_has_values",
            words="the spectrum is zero on every rank but the first: fields do not vary along the axis that is cut",
            settings={"fields": "even"},
            narrow="nothing_where_zero",
        ),
        sizes_by_field(_TOLERANCE),
        two_sizes(_TOLERANCE, batch="C"),
        with_a_zero_field(
            other_extents(
                B=Extent(high=12),
                C=Extent(high=12),
                H=Extent(low=2, high=96),
                L=Extent(low=2, high=160),
                derive=_cut,
            ),
            row="every rank's first row of each spectrum",
        ),
        long_extent(
            "long_rows",
            B=1,
            C=Extent(high=2),
            short=Extent(low=8, high=24, of=8),
            long=Extent(low=2000, high=4096, of=2),
            is_tall=Whole(low=0, high=1),
            derive=_cut_long,
        ),
    ),
    invariants=(
        "Tensors are contiguous.",
        "The sizes of all values of a field's whole spectrum add up to 1e36 at most.",
        "A whole spectrum is zero, or its largest value is 1e-33 at least in size.",
        "`group` is None, the world group.",
        "`s` is the size of the fields, never None. H and L are even, and multiples of the world size.",
        "Fields of one batch may be of very different sizes, by a factor of up to 1e50.",
        "Tensors have the same shapes on all ranks.",
        "Half spectra are those of real fields.",
    ),
)
