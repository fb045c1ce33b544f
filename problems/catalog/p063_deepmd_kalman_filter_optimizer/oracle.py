"""The expected outputs, in float64, by the formulas as they stand and without a collective."""

import torch
from torch import Tensor

from problems.catalog.p063_deepmd_kalman_filter_optimizer.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`weights` of all ranks, `P`, `kalman_lambda_next`, and the rank's `own_weights` and `own_P` once more."""
    own = make_inputs(call)
    lam, nue = own["kalman_lambda"], own["kalman_nue"]
    total = torch.zeros((), dtype=torch.float64, device=call.device)
    gains, weights, errors = [], [], []
    for rank in range(call.world_size):
        sent = own if rank == call.rank else make_inputs(call.at_rank(rank))
        derivatives = [derivative[:, 0] for derivative in sent["H"]]
        gains.append([covariance.mv(derivative) for covariance, derivative in zip(sent["P"], derivatives, strict=True)])
        total += torch.cat(gains[-1]).dot(torch.cat(derivatives)) + lam * len(derivatives)
        weights.append(torch.stack(sent["weights"]))
        errors.append(sent["error"])
    new_weights = [
        weight + error * torch.stack(gain)[..., None] / total
        for weight, error, gain in zip(weights, errors, gains, strict=True)
    ]
    updated = torch.stack(
        [
            covariance.addr(gain, gain / total, alpha=-1) / lam
            for covariance, gain in zip(own["P"], gains[call.rank], strict=True)
        ]
    )
    following = torch.tensor(nue * lam + 1 - nue, dtype=torch.float64, device=call.device)
    return torch.cat(new_weights), updated, following, new_weights[call.rank], updated
