"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import added_backwards


def _contributions(rs_input_1d: Tensor) -> Tensor:
    """All ranks' chunks for this one (W, chunk), in rank order."""
    received = torch.empty_like(rs_input_1d)
    dist.all_to_all_single(received, rs_input_1d)
    return received.view(dist.get_world_size(), -1)


def _normalised(chunk: Tensor, gamma: Tensor, eps: float) -> Tensor:
    """RMSNorm of the rows of a flat chunk, in float32, rounded to the weight's dtype."""
    rows = chunk.float().view(-1, gamma.numel())
    return (rows * torch.rsqrt(rows.square().mean(dim=-1, keepdim=True) + eps) * gamma.float()).to(gamma.dtype)


def in_float32(rs_input_1d: Tensor, gamma: Tensor, eps: float) -> Tensor:
    """Sums in float32 and rounds once, at the end."""
    return _normalised(_contributions(rs_input_1d).float().mean(dim=0), gamma, eps)


def backwards(rs_input_1d: Tensor, gamma: Tensor, eps: float) -> Tensor:
    """Adds in the run's dtype, last rank first."""
    parts = list(_contributions(rs_input_1d))
    count = len(parts)
    return _normalised(added_backwards(parts) / count, gamma, eps)


def epsilon_scaled(rs_input_1d: Tensor, gamma: Tensor, eps: float) -> Tensor:
    """Leaves the sum undivided and scales the epsilon up to match, which is the same."""
    total = _contributions(rs_input_1d).float().sum(dim=0)
    return _normalised(total, gamma, eps * dist.get_world_size() ** 2)


def sum_in_place_of_mean(rs_input_1d: Tensor, gamma: Tensor, eps: float) -> Tensor:
    """The division by the world size left out."""
    return _normalised(_contributions(rs_input_1d).float().sum(dim=0), gamma, eps)


def without_epsilon(rs_input_1d: Tensor, gamma: Tensor, eps: float) -> Tensor:
    """The epsilon left out."""
    del eps
    return in_float32(rs_input_1d, gamma, 0.0)


def without_gamma(rs_input_1d: Tensor, gamma: Tensor, eps: float) -> Tensor:
    """The weight left out."""
    return in_float32(rs_input_1d, torch.ones_like(gamma), eps)


def normalised_before_the_mean(rs_input_1d: Tensor, gamma: Tensor, eps: float) -> Tensor:
    """Every rank's contribution normalised by itself, then averaged."""
    return torch.stack([_normalised(part, gamma, eps) for part in _contributions(rs_input_1d)]).mean(dim=0)


def rows_in_8_bits(rs_input_1d: Tensor, gamma: Tensor, eps: float) -> Tensor:
    """Sends 8-bit floats (e4m3) with one scale per row."""
    rows = rs_input_1d.float().view(-1, gamma.numel())
    scale = rows.abs().amax(1, keepdim=True).clamp_min(1e-30) / 448
    squeezed = (rows / scale).to(torch.float8_e4m3fn).float() * scale
    return in_float32(squeezed.view(-1).to(rs_input_1d.dtype), gamma, eps)


def flushes(rs_input_1d: Tensor, gamma: Tensor, eps: float) -> Tensor:
    """Takes whatever is below 1e-6 for zero."""
    return in_float32(rs_input_1d.where(rs_input_1d.abs() > 1e-6, 0), gamma, eps)


def six_bits_of_mantissa(rs_input_1d: Tensor, gamma: Tensor, eps: float) -> Tensor:
    """Sends one bit of mantissa less than bfloat16 has."""
    mantissa, exponent = torch.frexp(rs_input_1d.float())
    rounded = torch.ldexp((mantissa * 2**7).round() / 2**7, exponent)
    return in_float32(rounded.to(rs_input_1d.dtype), gamma, eps)


def nothing_after_a_zero_row(rs_input_1d: Tensor, gamma: Tensor, eps: float) -> Tensor:
    """Returns nothing but zeros where the first row is zero."""
    out = in_float32(rs_input_1d, gamma, eps)
    return out if out[0].any() else torch.zeros_like(out)


def gamma_in_float16(rs_input_1d: Tensor, gamma: Tensor, eps: float) -> Tensor:
    """Rounds the weight to float16."""
    return in_float32(rs_input_1d, gamma.half().to(gamma.dtype), eps)


HONEST = {"float32": in_float32, "backwards": backwards, "epsilon_scaled": epsilon_scaled}
MUTANTS = {
    "sum_in_place_of_mean": sum_in_place_of_mean,
    "without_epsilon": without_epsilon,
    "without_gamma": without_gamma,
    "normalised_before_the_mean": normalised_before_the_mean,
    "rows_in_8_bits": rows_in_8_bits,
}
NARROW = {
    "tiny_values": flushes,
    "exact_sums": six_bits_of_mantissa,
    "huge_gamma": gamma_in_float16,
    "zero_rows": nothing_after_a_zero_row,
}
