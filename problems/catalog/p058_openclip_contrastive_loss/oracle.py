"""The expected outputs, in float64, one rank's texts after the other."""

import torch
from torch import Tensor, nn

from problems.catalog.p058_openclip_contrastive_loss.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`loss` (): the rank's images against all texts."""
    own = make_inputs(call)
    images = own["image_features"].double() * own["logit_scale"]
    total = torch.zeros((), dtype=torch.float64, device=call.device)
    for rank in range(call.world_size):
        texts = make_inputs(call.at_rank(rank))["text_features"].double()
        logits = images @ texts.T + own["logit_bias"]
        total += nn.functional.softplus(logits).sum()
        if rank == call.rank:
            # softplus(-z) - softplus(z) = -z turns a pair's term into that of a match.
            total -= logits.diagonal().sum()
    return (total / call.dims["B"],)
