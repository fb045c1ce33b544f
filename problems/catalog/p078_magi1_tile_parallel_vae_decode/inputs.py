"""Arguments of one rank for one call.

Latents have a long tail: after interpolation the few large ones carry a row, and a payload squeezed to 8 bits shows.
"""

import torch

from problems.catalog.p078_magi1_tile_parallel_vae_decode.spec import EIGHTHS
from problems.regime_values import in_regime
from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """The rank's latent video (B, C, Tz, Hz, Wz), tile sizes, overlap factors, upsampling factors and no group."""
    dims = dict(call.dims)
    in_space, in_time = call.setting("in_space", dims["fs8"]), call.setting("in_time", dims["ft8"])
    if call.setting("tiles", None) == "one":
        dims |= {"Lt": dims["Tz"], "Lh": dims["Hz"], "Lw": dims["Wz"]}
    return {
        "z": in_regime(call, "z", call.long_tailed("z", ("B", "C", "Tz", "Hz", "Wz"), dtype=torch.bfloat16)),
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
