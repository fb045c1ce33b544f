"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.inputs.regime_values import in_regime
from problems.inputs.values import Arguments, Call

_DIRECTIONS = 2
"""Directions in which a covariance is large."""


def make_inputs(call: Call) -> Arguments:
    """The rank's blocks: derivatives, weights and covariances; its error; and the filter's numbers.

    Scales are such that every term shows: a block's share of the denominator is about as large as lambda, and the
    rank-one term of P is as large as P in 1 of (blocks of all ranks).
    """
    blocks = [_block(call, number) for number in range(call.dims["nb"])]
    sign = 2 * call.integers("sign", (), low=0, high=2).double() - 1
    return {
        "H": [derivative for derivative, _ in blocks],
        "error": _in_regime(call, "error", sign * call.uniform("error", (), low=1, high=3, dtype=torch.float64)),
        "weights": [_weights(call, f"weights{number}") for number in range(call.dims["nb"])],
        "P": [covariance for _, covariance in blocks],
        "kalman_lambda": _number(call, "kalman_lambda", low=0.9, high=0.99),
        "kalman_nue": _number(call, "kalman_nue", low=0.9, high=0.999),
    }


def _weights(call: Call, name: str) -> Tensor:
    return _in_regime(call, name, _wide(call, name, ("nk", 1)).mul_(0.05))


def _in_regime(call: Call, name: str, tensor: Tensor) -> Tensor:
    """Weights or the error as the call's regime has them."""
    return in_regime(call, name, tensor) * float(call.setting("unit", 1.0))


def _wide(call: Call, name: str, symbols: tuple[str | int, ...]) -> Tensor:
    """Standard normal values in float64."""
    return call.normal(name, symbols, dtype=torch.float64)


def _number(call: Call, name: str, *, low: float, high: float) -> float:
    drawn = call.uniform(name, (), low=low, high=high, dtype=torch.float64, shared=True)
    return float(call.setting(name, drawn))


def _block(call: Call, number: int) -> tuple[Tensor, Tensor]:
    """Derivatives (nk, 1) and covariance (nk, nk) of block `number`, with large directions in common."""
    size = call.dims["nk"]
    large = _wide(call, f"directions{number}", ("nk", _DIRECTIONS))
    if call.setting("P", "usual") == "sparse":
        large *= call.uniform(f"regime's P{number}", ("nk", 1), dtype=torch.float64) >= 1 / 2
        large[0] = 0
    derivative = large @ _wide(call, f"H in large directions{number}", (_DIRECTIONS, 1))
    derivative += 0.5 * _wide(call, f"H{number}", ("nk", 1))
    covariance = large @ large.T
    covariance.diagonal().add_(call.uniform(f"P{number}", ("nk",), low=0.5, high=1.5, dtype=torch.float64))
    return _derivatives_factor(call, number) * derivative / size, covariance


def _derivatives_factor(call: Call, number: int) -> float:
    """By what a regime multiplies the derivatives of block `number`."""
    kind = call.setting("derivatives", 1.0)
    if not isinstance(kind, str):
        return float(kind)
    zero = {"first_zero": 0, "one_zero": int(call.integers("regime's block", (), low=0, high=call.dims["nb"]))}
    return 0.0 if zero.get(kind, number) == number else 1.0
