"""Arguments of one rank for one call.

Latents have a long tail: after interpolation the few large ones carry a row, and a payload squeezed to 8 bits shows.
"""

import torch

from problems.catalog.p078_magi1_tile_parallel_vae_decode.spec import EIGHTHS
from problems.inputs.copying import copies, odd_values
from problems.inputs.regime_values import in_regime
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """The rank's latent video (B, C, Tz, Hz, Wz), tile sizes, overlap factors, upsampling factors and no group."""
    dims = dict(call.dims)
    if call.setting("tiles", None) == "odd":
        dims |= {"Lt": 2 - dims["image"], "Lh": dims["Lh"] - 1, "Lw": dims["Lw"] + 1}
    in_space, in_time = int(call.setting("in_space", dims["fs8"])), call.setting("in_time", dims["ft8"])
    if in_time * (dims["Lt"] + dims["image"]) % EIGHTHS:
        in_time = dims["ft8"]
    if call.setting("tiles", None) == "one":
        dims |= {"Lt": dims["Tz"], "Lh": dims["Hz"], "Lw": dims["Wz"]}
    if in_space * dims["Lh"] % EIGHTHS or in_space * dims["Lw"] % EIGHTHS:
        in_space = 0
    if call.setting("tiles", None) == "low":
        dims["Lh"] = dims["Lw"] // 2
    if call.setting("tiles", None) == "high":
        dims["Lw"] = dims["Lh"] // 2
    return {
        "z": _even_tiles(call) if copies(call) else _latents(call),
        "tile_latent_min_length": dims["Lt"],
        "tile_latent_min_height": dims["Lh"],
        "tile_latent_min_width": dims["Lw"],
        "spatial_tile_overlap_factor": in_space / EIGHTHS,
        "temporal_tile_overlap_factor": in_time / EIGHTHS,
        "spatial_upsample": dims["us"],
        "temporal_upsample": dims["ut"],
        "sr_ratio": dims["sr"],
        "first_frame_as_image": bool(dims["image"]),
        "group": None,
    }


def _latents(call: Call) -> torch.Tensor:
    drawn = call.long_tailed("z", ("B", "C", "Tz", "Hz", "Wz"), dtype=torch.bfloat16)
    if call.setting("first_row", "usual") == "zero":
        drawn[..., 0, :] = 0
    return in_regime(call, "z", drawn)


def _even_tiles(call: Call) -> torch.Tensor:
    """Latents that are alike throughout a tile, where tiles do not overlap: interpolated, they stay what they are."""
    lengths = (call.dims["Lt"] + call.dims["image"], call.dims["Lh"], call.dims["Lw"])
    extents = call.shape(("Tz", "Hz", "Wz"))
    tiles = [-(-extent // length) for extent, length in zip(extents, lengths, strict=True)]
    latents = odd_values(call, "z", ("B", "C", *tiles)).to(torch.bfloat16)
    for axis, (extent, length) in enumerate(zip(extents, lengths, strict=True), start=2):
        latents = latents.repeat_interleave(length, dim=axis).narrow(axis, 0, extent)
    return latents.contiguous()
