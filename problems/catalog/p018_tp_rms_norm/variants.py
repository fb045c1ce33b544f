"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import all_gathered


def _normalise(hidden: Tensor, weight: Tensor, variance: Tensor, epsilon: float) -> Tensor:
    return (hidden.float() * torch.rsqrt(variance + epsilon) * weight.float()).to(hidden.dtype)


def rounded_once(local_hidden_states: Tensor, local_weight: Tensor, variance_epsilon: float) -> Tensor:
    """Float32 to the end, one rounding."""
    variance = local_hidden_states.float().square().mean(dim=-1, keepdim=True)
    dist.all_reduce(variance)
    variance /= dist.get_world_size()
    return _normalise(local_hidden_states, local_weight, variance, variance_epsilon)


def gathered(local_hidden_states: Tensor, local_weight: Tensor, variance_epsilon: float) -> Tensor:
    """Gathers the sums and adds them in float64, last rank first."""
    squares = local_hidden_states.float().square().sum(dim=-1, keepdim=True)
    parts = all_gathered(squares)
    total = torch.stack(parts[::-1]).double().sum(dim=0)
    variance = (total / (local_hidden_states.shape[-1] * len(parts))).float()
    return _normalise(local_hidden_states, local_weight, variance, variance_epsilon)


def local_statistics(local_hidden_states: Tensor, local_weight: Tensor, variance_epsilon: float) -> Tensor:
    """Each shard by its own root mean square."""
    variance = local_hidden_states.float().square().mean(dim=-1, keepdim=True)
    return _normalise(local_hidden_states, local_weight, variance, variance_epsilon)


def without_epsilon(local_hidden_states: Tensor, local_weight: Tensor, variance_epsilon: float) -> Tensor:
    """The epsilon left out."""
    del variance_epsilon
    return rounded_once(local_hidden_states, local_weight, 0.0)


def statistics_in_8_bits(local_hidden_states: Tensor, local_weight: Tensor, variance_epsilon: float) -> Tensor:
    """Sums of squares sent as 8-bit floats (the wide-range kind, five bits of exponent)."""
    squares = local_hidden_states.float().square().sum(dim=-1, keepdim=True)
    squares = squares.to(torch.float8_e5m2).float()
    dist.all_reduce(squares)
    variance = squares / (local_hidden_states.shape[-1] * dist.get_world_size())
    return _normalise(local_hidden_states, local_weight, variance, variance_epsilon)


def layer_norm(local_hidden_states: Tensor, local_weight: Tensor, variance_epsilon: float) -> Tensor:
    """Subtracts the local mean as a layer norm would."""
    centred = local_hidden_states - local_hidden_states.mean(dim=-1, keepdim=True)
    return rounded_once(centred, local_weight, variance_epsilon)


def saturates(local_hidden_states: Tensor, local_weight: Tensor, variance_epsilon: float) -> Tensor:
    """Counts no element for more than 2^16."""
    return rounded_once(local_hidden_states.clamp(-(2**16), 2**16), local_weight, variance_epsilon)


def drops_what_is_tiny(local_hidden_states: Tensor, local_weight: Tensor, variance_epsilon: float) -> Tensor:
    """Takes elements below 2^-22 for zero."""
    kept = local_hidden_states.where(local_hidden_states.abs() >= 2.0**-22, 0)
    return rounded_once(kept, local_weight, variance_epsilon)


def up_to_8192(local_hidden_states: Tensor, local_weight: Tensor, variance_epsilon: float) -> Tensor:
    """One block of 1024 threads with 8 elements each per row, and no loop."""
    held = 8192
    squares = local_hidden_states[:, :held].float().square().sum(dim=-1, keepdim=True)
    dist.all_reduce(squares)
    variance = squares / (local_hidden_states.shape[-1] * dist.get_world_size())
    out = torch.zeros_like(local_hidden_states)
    out[:, :held] = _normalise(local_hidden_states[:, :held], local_weight[:held], variance, variance_epsilon)
    return out


HONEST = {"rounded_once": rounded_once, "gathered": gathered}
MUTANTS = {
    "local_statistics": local_statistics,
    "without_epsilon": without_epsilon,
    "statistics_in_8_bits": statistics_in_8_bits,
    "layer_norm": layer_norm,
}
NARROW = {"tiny_values": drops_what_is_tiny, "huge_values": saturates, "long_rows": up_to_8192}
