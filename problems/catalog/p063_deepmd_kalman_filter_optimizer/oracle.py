"""What each rank owes, in float64, by the formulas as they stand and without a collective."""

import torch
from torch import Tensor

from problems.catalog.p063_deepmd_kalman_filter_optimizer.inputs import make_inputs
from problems.values import Arguments, Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`weights` of all ranks, `P`, `kalman_lambda_next`, and the rank's `own_weights` and `own_P` once more."""
    own = make_inputs(call)
    lam, nue = own["kalman_lambda"], own["kalman_nue"]
    gains, total = [], torch.zeros((), dtype=torch.float64, device=call.device)
    for rank in range(call.world_size):
        sent = make_inputs(call.at_rank(rank))
        gains.append([covariance.mv(derivative[:, 0]) for covariance, derivative in _blocks(sent)])
        shares = [gain.dot(derivative[:, 0]) for gain, derivative in zip(gains[-1], sent["H"], strict=True)]
        total += sum(shares) + lam * len(shares)
    weights = [_updated(make_inputs(call.at_rank(rank)), gains[rank], total) for rank in range(call.world_size)]
    updated = torch.stack(
        [
            (covariance - gain.outer(gain) / total) / lam
            for covariance, gain in zip(own["P"], gains[call.rank], strict=True)
        ]
    )
    following = torch.tensor(nue * lam + 1 - nue, dtype=torch.float64, device=call.device)
    return torch.cat(weights), updated, following, weights[call.rank], updated


def _blocks(arguments: Arguments) -> list[tuple[Tensor, Tensor]]:
    return list(zip(arguments["P"], arguments["H"], strict=True))


def _updated(arguments: Arguments, gains: list[Tensor], total: Tensor) -> Tensor:
    """The new weights (nb, nk, 1) of a rank."""
    blocks = zip(arguments["weights"], gains, strict=True)
    return torch.stack([weight + arguments["error"] * gain[:, None] / total for weight, gain in blocks])
