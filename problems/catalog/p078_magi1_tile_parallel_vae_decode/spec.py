"""Tile-parallel decoding of a latent video, described."""

from dataclasses import replace

from problems.spec.ranges import Among, Extent, Whole
from problems.spec.regimes import SUMMED_VALUES, copied_values, other_extents
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

COLOURS = 3
EIGHTHS = 8
"""Overlap factors are counted in eighths, which binary fractions hold exactly."""


def _sized(
    *,
    channels: int,
    latent: tuple[int, int, int],
    tile: tuple[int, int, int],
    overlap: tuple[int, int],
    upsample: tuple[int, int],
    sr_ratio: int = 1,
    first_frame_as_image: bool = False,
) -> Dims:
    """Dimensions from frames, height, width of the latent and of a tile; `overlap`, `upsample` in space and in time."""
    frames, height, width = latent
    in_space, in_time = upsample
    return {
        "B": 1,
        "C": channels,
        "Tz": frames,
        "Hz": height,
        "Wz": width,
        "Lt": tile[0],
        "Lh": tile[1],
        "Lw": tile[2],
        "fs8": overlap[0],
        "ft8": overlap[1],
        "us": in_space,
        "ut": in_time,
        "sr": sr_ratio,
        "image": int(first_frame_as_image),
        "Co": COLOURS,
        "To": frames * in_time,
        "Ho": height * in_space * sr_ratio,
        "Wo": width * in_space * sr_ratio,
    }


def tiny(_world_size: int) -> Dims:
    """Overlap in time as well, a super-resolution ratio, and tiles one frame longer for a first image."""
    return _sized(
        channels=4,
        latent=(5, 7, 8),
        tile=(3, 4, 4),
        overlap=(2, 4),
        upsample=(2, 2),
        sr_ratio=2,
        first_frame_as_image=True,
    )


def base(_world_size: int) -> Dims:
    """The card's size."""
    return _sized(channels=16, latent=(6, 90, 90), tile=(3, 32, 32), overlap=(2, 0), upsample=(8, 4))


def large(_world_size: int) -> Dims:
    """Four seconds of 720p video."""
    return _sized(channels=16, latent=(24, 90, 160), tile=(4, 32, 32), overlap=(2, 2), upsample=(8, 4))


def axis_lengths(*, extent: int, tile: int, overlap: int) -> list[int]:
    """Latent lengths of the tiles along one axis: full ones, and what the border leaves of the last."""
    stride = tile * (EIGHTHS - overlap) // EIGHTHS
    return [min(tile, extent - start) for start in range(0, extent, stride)]


def _axes(dims: Dims) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Extent, tile length and overlap in time, height and width."""
    return (
        {"extent": dims["Tz"], "tile": dims["Lt"] + dims["image"], "overlap": dims["ft8"]},
        {"extent": dims["Hz"], "tile": dims["Lh"], "overlap": dims["fs8"]},
        {"extent": dims["Wz"], "tile": dims["Lw"], "overlap": dims["fs8"]},
    )


def needed_latents(dims: Dims) -> int:
    """Latent positions that the video depends on: every tile up to the next one, and its overlaps with the next.

    Where tiles overlap on two axes at once, a tile's far corner is blended into nothing.
    """
    whole = dims["Tz"] * dims["Hz"] * dims["Wz"]
    total = float(whole)
    for axis in _axes(dims):
        overlapping = sum(axis_lengths(**axis)) - axis["extent"]
        total += whole / axis["extent"] * overlapping
    return round(total)


def decoded_voxels(dims: Dims) -> int:
    """Voxels of all decoded tiles, overlaps included."""
    count = dims["ut"] * (dims["us"] * dims["sr"]) ** 2
    for axis in _axes(dims):
        count *= sum(axis_lengths(**axis))
    return count


def cost(dims: Dims, world_size: int, _element_bytes: int) -> Cost:
    """Interpolating the rank's tiles, writing the whole video; latents of three channels are all that has to travel.

    Tiles are dealt out evenly, so 1/W of them is counted as the rank's own.
    """
    remote = (world_size - 1) / world_size
    latents = 2 * dims["B"] * COLOURS * needed_latents(dims)
    video = 2 * dims["B"] * COLOURS * dims["To"] * dims["Ho"] * dims["Wo"]
    decoded = 2 * dims["B"] * COLOURS * decoded_voxels(dims)
    return Cost(
        flops={"fp32": 16 * decoded / 2 / world_size},
        memory_bytes=latents / world_size + video,
        wire_bytes=remote * latents,
        reference_wire_bytes=remote * (decoded + video),
        note="This stand-in for a decoder reads three channels, so latents are smaller than what is decoded from them: "
        "gathering those and decoding everything everywhere needs the fewest bytes.",
    )


_MOST_ROWS = 420
"""Of all frames of a latent video together, where extents are others than usual: more take long on processors."""


def _other_video(dims: Dims, _world_size: int) -> Dims:
    """`dims` with the video of such latents; tiles are of 4 x 4 latents, so that few latents are several tiles.

    Of many frames few rows are left, and rows are columns where frames are wide.
    """
    across, rows = dims["us"] * dims["sr"], min(dims["Hz"], max(1, _MOST_ROWS // dims["Tz"]))
    dims = {**dims, "Hz": dims["Wz"], "Wz": rows} if dims["is_wide"] else {**dims, "Hz": rows}
    video = {"To": dims["Tz"] * dims["ut"], "Ho": dims["Hz"] * across, "Wo": dims["Wz"] * across}
    return {**dims, **video, "Lh": 4, "Lw": 4}


_COPIED = copied_values("video", words="tiles do not overlap and are even", apart=("one_tile",))
_EVEN_TILES = replace(_COPIED, settings={**_COPIED.settings, "in_space": 0, "in_time": 0})


PROBLEM = Problem(
    number=78,
    slug="magi1_tile_parallel_vae_decode",
    title="Tile-parallel VAE decode with overlap blending",
    summary="Overlapping tiles of a latent video are decoded by their owners, blended with their neighbours and put "
    "together on every rank.",
    origin="MAGI-1 (Sand AI, tile-parallel VAE decoding)",
    parallelism=(Parallelism.SPATIAL,),
    communication=(Communication.ALL_GATHER, Communication.ALL_TO_ALL_V),
    block=Block.VISION,
    stage=(Stage.INFERENCE,),
    domain=Domain.DIFFUSION_VIDEO,
    signature="solution(z: Tensor, tile_latent_min_length: int, tile_latent_min_height: int, "
    "tile_latent_min_width: int, spatial_tile_overlap_factor: float, temporal_tile_overlap_factor: float, "
    "spatial_upsample: int, temporal_upsample: int, sr_ratio: int = 1, first_frame_as_image: bool = False, "
    "group: Optional[ProcessGroup] = None) -> Tensor",
    arguments=(
        Argument(
            name="z",
            shape=("B", "C", "Tz", "Hz", "Wz"),
            dtype="bfloat16",
            values="long-tailed, different on every rank: a tile shows who decoded it",
        ),
        Argument(name="tile_latent_min_length", kind=ArgumentKind.INTEGER, dtype="int", values="Lt"),
        Argument(name="tile_latent_min_height", kind=ArgumentKind.INTEGER, dtype="int", values="Lh"),
        Argument(name="tile_latent_min_width", kind=ArgumentKind.INTEGER, dtype="int", values="Lw"),
        Argument(
            name="spatial_tile_overlap_factor", kind=ArgumentKind.REAL, dtype="float", values="fs8 / 8 in timed calls"
        ),
        Argument(
            name="temporal_tile_overlap_factor", kind=ArgumentKind.REAL, dtype="float", values="ft8 / 8 in timed calls"
        ),
        Argument(name="spatial_upsample", kind=ArgumentKind.INTEGER, dtype="int", values="us"),
        Argument(name="temporal_upsample", kind=ArgumentKind.INTEGER, dtype="int", values="ut"),
        Argument(name="sr_ratio", kind=ArgumentKind.INTEGER, dtype="int", values="sr: 1, at tiny 2"),
        Argument(
            name="first_frame_as_image",
            kind=ArgumentKind.BOOLEAN,
            dtype="bool",
            values="image: False, at tiny True",
        ),
        WORLD_GROUP,
    ),
    outputs=(
        Output(
            name="video",
            shape=("B", "Co", "To", "Ho", "Wo"),
            dtype="bfloat16",
            placement=Placement.REPLICATED,
            tolerance=Tolerance(
                atol=0.08,
                rtol=0.05,
                rms=0.008,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, tiny at 2 and 4 ranks (3 calls), base at 2. "
                "Honest programs (float32; latents gathered; every step of the blending rounded) err by at most 0.019 "
                "and 0.0024 rms. The cheapest cheat (exchange in 8 bits) errs by at least 0.076 and 0.027 rms. "
                "At large, on 2 H200 (torch 2.11), honest ones err by up to 0.038 and 0.0023 rms: the rms decides.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=tiny, system="a check on CPU ranks"),
        SizeName.BASE: Size(dims=base, system="the card's size: 32 tiles, a video of 24 frames of 720 x 720"),
        SizeName.LARGE: Size(
            dims=large,
            system="MAGI-1: 96 frames (4 s) of 1280 x 720, latents of 16 channels, 4 x 8 x 8 times smaller, in 224 "
            "tiles of 4 x 32 x 32 that overlap by a quarter",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="a tile's owner",
            target="every rank",
            payload="the decoded tile",
            pattern=Communication.ALL_GATHER,
        ),
        Hop(
            source="a tile's owner",
            target="every rank",
            payload="the tile blended with its neighbours, cut to the part that it fills",
            pattern=Communication.ALL_GATHER,
        ),
    ),
    notes=(
        "Every owner decodes its own z, so the video is a patchwork of all ranks' latents.",
        "Channels of z beyond the third do not matter.",
    ),
    counted_wire=Reading(
        least=0.995,
        most=1.1,
        reason="Tiles at the border are smaller, so shares are padded to the largest: a few per cent at tiny.",
    ),
    regimes=(
        Regime(
            name="no_overlap",
            words="tiles do not overlap",
            settings={"in_space": 0, "in_time": 0},
            narrow="usual_numbers",
        ),
        Regime(
            name="half_overlap",
            words="half of a tile overlaps with the next one in height and width",
            settings={"in_space": 4},
            at_large=False,
            narrow="usual_numbers",
        ),
        Regime(
            name="most_overlaps",
            words="three quarters of a tile overlap with the next one in height and width",
            settings={"in_space": 6},
            at_large=False,
        ),
        Regime(
            name="most_overlaps_in_time",
            words="three quarters of a tile overlap with the next one in time, where those are whole latents",
            settings={"in_time": 6},
            at_large=False,
        ),
        Regime(
            name="low_tiles",
            words="tiles are half as high as wide, half as wide as high, or short and of an odd height and width, and "
            "overlap by 0 or 4 eighths in height and width, where those are whole latents",
            settings={"tiles": Among(options=("odd", "low", "high")), "in_space": Among(options=("0", "4"))},
            at_large=False,
        ),
        Regime(
            name="one_tile",
            words="one tile holds the whole latent video",
            settings={"tiles": "one", "in_space": 0, "in_time": 0},
            at_large=False,
            narrow="usual_numbers",
        ),
        replace(
            other_extents(
                derive=_other_video,
                B=Extent(high=5),
                Tz=Extent(high=24),
                Hz=Extent(high=70),
                Wz=Extent(high=11),
                is_wide=Whole(low=0, high=1),
            ),
            words="tensors have other extents than usual, and the first row of every frame may be zero",
            settings={"first_row": Among(options=("zero", "usual"))},
        ),
        *SUMMED_VALUES,
        _EVEN_TILES,
    ),
    invariants=(
        "Tensors are contiguous.",
        "Latents are zero, or from 1e-22 to 1e11 in size.",
        "`group` is None, the world group.",
        "Overlaps are whole numbers of latents, and so are strides.",
        "Overlap factors are 0, 1/4, 1/2 or 3/4, and every stride is at least one latent.",
        "`sr_ratio`, upsampling factors and `first_frame_as_image` are those of the size, and so is C.",
        "All ranks' latents have one shape: B and all extents are at least 1, and may be less than a tile's.",
    ),
)
