"""Arguments of one rank for one call."""

from math import log

import torch
from torch import Tensor, nn

from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """Paired features (B, D) of unit length, the secret scale and bias of this call, and no group.

    A pair shares a direction of its own, and all features share one, more on some ranks than on others: foreign
    texts then count for much of the loss, differently on every rank. The bias balances one pair against all others.
    """
    scale, offset = call.uniform("scale and bias", (2,), dtype=torch.float64, shared=True).tolist()
    texts = call.world_size * call.dims["B"]
    return {
        "image_features": _features(call, "image_features"),
        "text_features": _features(call, "text_features"),
        "logit_scale": float(call.setting("scale", 6.0 + 8.0 * scale)),
        "logit_bias": call.setting("bias", -log(texts) - 1.0 + 2.0 * offset),
        "group": None,
    }


def _features(call: Call, name: str) -> Tensor:
    """The pairs' own directions, the common one, and noise."""
    unit = call.dims["D"] ** -0.5
    pair = call.normal("pairs", ("B", "D"), std=unit, dtype=torch.float32)
    noise = call.normal(name, ("B", "D"), std=0.5 * unit, dtype=torch.float32)
    common = call.normal("common", (1, "D"), std=unit, dtype=torch.float32, shared=True)
    features = call.setting("features", None)
    if features == "apart":
        places = call.permutation("regime's places", call.dims["D"], shared=True).split(call.dims["B"])
        return nn.functional.one_hot(places[call.rank], call.dims["D"]).to(call.dtype)
    if features not in (None, "ends"):
        sign = -1 if features == "opposite" and name == "text_features" else 1
        return sign * nn.functional.normalize(common, dim=-1).to(call.dtype).repeat(call.dims["B"], 1)
    # Every rank's share is another, from 0.4 to 0.9: no rank's loss is near another's.
    place = call.permutation(f"{name} share", call.world_size, shared=True)[call.rank]
    share = 0.4 + 0.5 * place / (call.world_size - 1)
    usual = nn.functional.normalize(pair + noise + share * common, dim=-1).to(call.dtype)
    if features == "ends":
        usual[-1] = usual[0]
    return usual
