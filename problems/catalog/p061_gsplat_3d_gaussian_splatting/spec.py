"""Projection of 3-D Gaussians and their way to the owners of the cameras, described."""

from dataclasses import replace

from problems.spec.ranges import Among, Extent, Real, Whole
from problems.spec.regimes import SPREAD_VALUES, other_extents
from problems.spec.schema import (
    EXACT,
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
    fixed,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

_VISIBLE = 0.5
"""Share of the pairs of a Gaussian and a camera that are visible, less than in any call measured."""

_SAFE = "float32 decides as float64 does"

_CALIBRATION = (
    "2026-11-21, CPU, torch 2.13, gloo, tiny at 2 and 4 ranks, base at 4. Honest programs (projected at the receiver; "
    "camera by camera; float64) err by at most 3.5e-7 in means2d, 6.5e-8 in depths and 2.3e-6 in conics. Rows sent in "
    "float16 err by at least 2.8e-4, 2.1e-4 and 3.2e-4. Anything coarser changes radii."
)


def cost(dims: Dims, world_size: int, _element_bytes: int) -> Cost:
    """Visible pairs are computed and written, everything in float32; how many there are varies between calls.

    For every rank, what crosses the links is the lesser of two. It is either the rows that its cameras see or, where it
    has several cameras, the Gaussians that one of them sees. Rotations take three numbers.
    """
    gaussians, cameras, colors = dims["n"], dims["Cl"], dims["Dc"]
    visible = _VISIBLE * gaussians
    row, gaussian = 4 * (2 + 1 + 3 + 1 + colors), 4 * (3 + 3 + 3 + 1 + colors)
    pairs = world_size * cameras * visible
    peers = world_size - 1
    return Cost(
        flops={"fp32": 100 * pairs},
        memory_bytes=4 * gaussians * (3 + 4 + 3 + 1 + colors) + pairs * (row + 8 + 8 + 8),
        wire_bytes=peers * visible * min(cameras * row, gaussian),
        reference_wire_bytes=peers * (cameras * gaussians * (row + 16) + cameras * 4 * 25 + 16),
        note=f"At least {_VISIBLE:.0%} of all pairs are visible, which is counted, but all of them for the reference. "
        "Radii and ids follow from the rest.",
    )


def _row(name: str, *shape: str | int, dtype: str = "float32", atol: float | None = None) -> Output:
    tolerance = EXACT if atol is None else Tolerance(atol=atol, rtol=atol, rms=None, calibration=_CALIBRATION)
    return Output(name=name, shape=("received", *shape), dtype=dtype, placement=Placement.PER_RANK, tolerance=tolerance)


_MOST_PAIRS = 24_000
"""Of a rank's Gaussians and all cameras, in the regime with other numbers of them: more take long to draw."""


def _of_cameras(dims: Dims, world_size: int) -> Dims:
    """All dimensions where a regime sets how many cameras all ranks have, rounded up; many see fewer Gaussians."""
    own = -(-dims["all_cameras"] // world_size)
    return {**dims, "Cl": own, "n": min(dims["n"], _MOST_PAIRS // (own * world_size))}


PROBLEM = Problem(
    number=61,
    slug="gsplat_3d_gaussian_splatting",
    title="Distributed 3-D Gaussian projection and redistribution to camera owners",
    summary="Every rank projects its Gaussians into all cameras; what a camera sees goes to the rank that owns it.",
    origin="gsplat (multi-GPU rasterization, Grendel-style exchange from Gaussian-parallel to camera-parallel)",
    parallelism=(Parallelism.DATA,),
    communication=(Communication.ALL_GATHER, Communication.ALL_TO_ALL, Communication.ALL_TO_ALL_V),
    block=Block.RENDERING,
    stage=(Stage.TRAINING, Stage.INFERENCE),
    domain=Domain.RENDERING,
    signature="solution(means: Tensor, quats: Tensor, scales: Tensor, opacities: Tensor, colors: Tensor, "
    "viewmats: Tensor, Ks: Tensor, image_width: int, image_height: int, eps2d: float = 0.3, near_plane: float = 0.01, "
    "far_plane: float = 1e10, camera_model: str = 'pinhole') -> Tuple[Tensor x 8]",
    arguments=(
        Argument(
            name="means",
            shape=("n", 3),
            dtype="float32",
            values=f"uniform in a cube of side 3 around the origin, drawn anew until {_SAFE}",
        ),
        Argument(name="quats", shape=("n", 4), dtype="float32", values="normal (w, x, y, z), not normalised"),
        Argument(
            name="scales",
            shape=("n", 3),
            dtype="float32",
            values="uniform, up to 10 / min(wd, ht); one Gaussian in 16 up to 0.1",
        ),
        Argument(name="opacities", shape=("n",), dtype="float32", values="uniform in (0.1, 0.9)"),
        Argument(name="colors", shape=("n", "Dc"), dtype="float32", values="uniform in (0, 1)"),
        Argument(
            name="viewmats",
            shape=("Cl", 4, 4),
            dtype="float32",
            values="rigid: cameras 2.5 away from the origin in random directions, looking nearly at it",
        ),
        Argument(
            name="Ks",
            shape=("Cl", 3, 3),
            dtype="float32",
            values="focal lengths 0.8 min(wd, ht) and principal points near the middle, another one for each camera",
        ),
        Argument(name="image_width", kind=ArgumentKind.INTEGER, dtype="int", values="wd"),
        Argument(name="image_height", kind=ArgumentKind.INTEGER, dtype="int", values="ht"),
        Argument(name="eps2d", kind=ArgumentKind.REAL, dtype="float", values="0.3 in timed calls"),
        Argument(name="near_plane", kind=ArgumentKind.REAL, dtype="float", values="0.5 in timed calls"),
        Argument(name="far_plane", kind=ArgumentKind.REAL, dtype="float", values="3.5 in timed calls"),
        Argument(name="camera_model", kind=ArgumentKind.TEXT, dtype="str", values="'pinhole', the only one"),
    ),
    outputs=(
        _row("camera_ids", dtype="int64"),
        _row("gaussian_ids", dtype="int64"),
        _row("radii", 2, dtype="int32"),
        _row("means2d", 2, atol=2e-5),
        _row("depths", atol=2e-5),
        _row("conics", 3, atol=5e-5),
        _row("opacities"),
        _row("colors", "Dc"),
    ),
    sizes={
        SizeName.TINY: Size(dims=fixed(n=96, Dc=3, Cl=2, wd=64, ht=48), system="a check on CPU ranks"),
        SizeName.BASE: Size(
            dims=fixed(n=1024, Dc=3, Cl=1, wd=512, ht=512), system="the card's size: 1024 Gaussians per rank"
        ),
        SizeName.LARGE: Size(
            dims=fixed(n=2_525_000, Dc=3, Cl=1, wd=4608, ht=3456),
            system="Grendel on the scene Rubble: 40.4 million Gaussians over 16 GPUs, a camera of 4608 x 3456 on each",
        ),
    },
    cost=cost,
    hops=(
        Hop(source="every rank", target="every rank", payload="its cameras", pattern=Communication.ALL_GATHER),
        Hop(
            source="rank r",
            target="rank d",
            payload="how many rows will come",
            pattern=Communication.ALL_TO_ALL,
        ),
        Hop(
            source="rank r",
            target="rank d",
            payload="the projections of its Gaussians that the cameras of d see",
            pattern=Communication.ALL_TO_ALL_V,
        ),
    ),
    mutants_not_applicable=dict.fromkeys(
        ("last_rank_skipped", "shards_wrong_order"),
        "changed counts would make ranks wait for rows that nobody sends; the mutants own_gaussians_only and "
        "sources_reversed stand for it",
    ),
    notes=("Ids of Gaussians are moved by the Gaussians of the ranks before the receiver, not before the sender.",),
    counted_flops=Reading(
        least=3.5,
        most=5.0,
        reason="The reference projects all Gaussians with products of whole 3 x 3 matrices; the model counts the "
        "visible half, element by element.",
    ),
    counted_wire=Reading(
        least=0.7,
        most=1.005,
        reason="The model counts all pairs for the reference; only visible ones travel, and how many depends on "
        "the data.",
    ),
    lengths_vary=True,
    regimes=(
        Regime(
            name="far_away",
            words="near_plane and far_plane are other ones, in a scene and from cameras that are `unit` times as large",
            settings={
                "near_plane": Real(low=0.5, high=2.0),
                "far_plane": Real(low=3.0, high=1e10, by_size=True),
                "unit": Among(options=("1", "256", "1048576")),
            },
            narrow="usual_numbers",
        ),
        Regime(
            name="other_blur",
            words="eps2d is another one, or 0",
            settings={"eps2d": Real(low=0.0, high=1.0)},
            narrow="usual_numbers",
        ),
        Regime(
            name="small_gaussians",
            words="Gaussians are up to ten thousand times smaller and eps2d is 0 or so little that some determinants "
            "are below 1e-10",
            settings={"sizes": "small", "eps2d": Real(low=0.0, high=9e-6, often=(1e-6,))},
        ),
        Regime(
            name="large_gaussians",
            words="some Gaussians are balls as wide as 10 to 40,000 pixels at the usual distance, and up to four times "
            "as far away",
            settings={"some": "large"},
        ),
        Regime(
            name="other_lengths",
            words="quaternions have lengths from 1e-8 to 1e8",
            settings={"lengths": "any"},
        ),
        Regime(
            name="other_colors",
            words="colors have another number of channels",
            dims={"Dc": Whole(low=1, high=8)},
        ),
        # Not fewer Gaussians: means near an image's corner are held to the size of those of all.
        other_extents(
            n=Extent(low=100, high=3000),
            all_cameras=Extent(low=1, high=70),
            wd=Extent(low=32, high=10000),
            ht=Extent(low=32, high=10000),
            derive=_of_cameras,
        ),
        Regime(
            name="nothing_visible",
            words="no Gaussian is visible in any camera",
            settings={"near_plane": 100.0, "far_plane": 1e10},
            hides=True,
        ),
        Regime(
            name="one_rank_sees",
            words="one rank's cameras look at the scene, or each rank's last one (last), and all others see nothing",
            settings={"cameras": Among(options=("one_rank", "last"))},
        ),
        Regime(
            name="transparent",
            words="opacities and colours are zero",
            settings={"values": "zero"},
            hides=True,
            narrow="nothing_where_zero",
        ),
        replace(SPREAD_VALUES, words="opacities and colours are of either sign and of all sizes from 1e-30 to 1e30"),
    ),
    invariants=(
        "Tensors are contiguous.",
        "The world group takes part.",
        "`camera_model` is 'pinhole'.",
        "Every rank has the same number of Gaussians and the same number of cameras.",
        "Colors have 1 to 8 channels, the same number on all ranks.",
        "Images are 32 to 10,000 pixels wide and high, all of one size.",
        "Pairs are 0.001 away from a plane, 0.02 pixels from an image's border, and 0.002 from another radius.",
        "`near_plane` is 0.5 to 2.1e6 and below `far_plane`, which is 3 to 1e10; `eps2d` is 0 to 1.",
        "Means are at most 1e7 in size, scales 1e-9 to 2e9, and quaternions 1e-8 to 1e8 long.",
        "Opacities and colors are at most 2e30 in size.",
        "`viewmats` are a rotation and a shift of at most 1e7, with (0, 0, 0, 1) as the last row.",
        "`Ks` have no skew, and (0, 0, 1) as the last row. Principal points lie in the middle fifth of either side.",
        "Focal lengths are 0.6 to 1 times the shorter side of an image.",
    ),
)
