"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import all_gathered

Group = dist.ProcessGroup | None


def _clip(gradients: list[Tensor], factor: Tensor | float) -> None:
    for gradient in gradients:
        gradient.copy_((gradient.float() * factor).to(gradient.dtype))


def _squares(gradients: list[Tensor]) -> Tensor:
    """The sum of all squares of this rank, float32."""
    return torch.stack([gradient.float().square().sum() for gradient in gradients]).sum()


def _powers(gradients: list[Tensor], p: float) -> Tensor:
    """The sum of |g|^p over all elements of this rank, float32."""
    return torch.stack([gradient.float().abs().pow(p).sum() for gradient in gradients]).sum()


def in_float64(grad_tensors: list[Tensor], max_norm: float, norm_type: float, fsdp_group: Group) -> Tensor:
    """Gathers local sums, adds them in float64, last rank first; the factor stays wide."""
    own = _powers(grad_tensors, norm_type)
    sums = all_gathered(own, fsdp_group)
    total_norm = torch.stack(sums[::-1]).double().sum().pow(1 / norm_type)
    if total_norm > max_norm:
        _clip(grad_tensors, max_norm / float(total_norm))
    return total_norm.float()


def factor_in_input_dtype(grad_tensors: list[Tensor], max_norm: float, norm_type: float, fsdp_group: Group) -> Tensor:
    """Rounds the factor to the gradients' dtype, as a product with a scalar tensor on the device does."""
    total = _powers(grad_tensors, norm_type)
    dist.all_reduce(total, group=fsdp_group)
    total_norm = total.pow(1 / norm_type)
    factor = torch.where(total_norm > max_norm, max_norm / total_norm, 1.0).to(grad_tensors[0].dtype)
    for gradient in grad_tensors:
        gradient.mul_(factor)
    return total_norm


def smaller_factor(grad_tensors: list[Tensor], max_norm: float, norm_type: float, fsdp_group: Group) -> Tensor:
    """Takes the smaller of 1 and the quotient for the factor, which is no number where both norms are zero."""
    total = _powers(grad_tensors, norm_type)
    dist.all_reduce(total, group=fsdp_group)
    total_norm = total.pow(1 / norm_type)
    _clip(grad_tensors, (max_norm / total_norm).clamp(max=1))
    return total_norm


def epsilon_in_the_norm(grad_tensors: list[Tensor], max_norm: float, norm_type: float, fsdp_group: Group) -> Tensor:
    """Adds a millionth of a millionth to the norm before it divides by it."""
    total_norm = not_clipped(grad_tensors, max_norm, norm_type, fsdp_group)
    _clip(grad_tensors, (max_norm / (total_norm + 1e-12)).clamp(max=1))
    return total_norm


def always_clips(grad_tensors: list[Tensor], max_norm: float, norm_type: float, fsdp_group: Group) -> Tensor:
    """Scales to the limit whether the norm exceeds it or not."""
    total = _powers(grad_tensors, norm_type)
    dist.all_reduce(total, group=fsdp_group)
    _clip(grad_tensors, max_norm / total.pow(1 / norm_type))
    return total.pow(1 / norm_type)


def skips_by_first_row(grad_tensors: list[Tensor], max_norm: float, norm_type: float, fsdp_group: Group) -> Tensor:
    """Takes a gradient whose first row is zero for one that is all zero."""
    counted = [gradient for gradient in grad_tensors if gradient[0].any()]
    return in_float64(counted or [grad_tensors[0][:1]], max_norm, norm_type, fsdp_group)


def saturates(grad_tensors: list[Tensor], max_norm: float, norm_type: float, fsdp_group: Group) -> Tensor:
    """Counts no element for more than 2^16."""
    return in_float64([gradient.clamp_(-(2**16), 2**16) for gradient in grad_tensors], max_norm, norm_type, fsdp_group)


def not_clipped(grad_tensors: list[Tensor], max_norm: float, norm_type: float, fsdp_group: Group) -> Tensor:
    """Returns the norm and leaves the gradients."""
    del max_norm, norm_type
    total = _squares(grad_tensors)
    dist.all_reduce(total, group=fsdp_group)
    return total.sqrt()


def last_tensor_not_clipped(grad_tensors: list[Tensor], max_norm: float, norm_type: float, fsdp_group: Group) -> Tensor:
    """Scales all tensors but the last."""
    total_norm = not_clipped(grad_tensors, max_norm, norm_type, fsdp_group)
    _clip(grad_tensors[:-1], max_norm / total_norm)
    return total_norm


def clipped_by_own_norm(grad_tensors: list[Tensor], max_norm: float, norm_type: float, fsdp_group: Group) -> Tensor:
    """Returns the right norm, but scales by the norm of this rank's gradients."""
    own = _squares(grad_tensors).sqrt()
    total_norm = not_clipped(grad_tensors, max_norm, norm_type, fsdp_group)
    _clip(grad_tensors, max_norm / own)
    return total_norm


def own_norm_extrapolated(grad_tensors: list[Tensor], max_norm: float, norm_type: float, fsdp_group: Group) -> Tensor:
    """Takes its own norm times the square root of W for the norm of all."""
    del norm_type
    total_norm = (_squares(grad_tensors) * dist.get_world_size(fsdp_group)).sqrt()
    _clip(grad_tensors, max_norm / total_norm)
    return total_norm


def norms_added(grad_tensors: list[Tensor], max_norm: float, norm_type: float, fsdp_group: Group) -> Tensor:
    """Adds norms in place of their squares."""
    del norm_type
    total_norm = _squares(grad_tensors).sqrt()
    dist.all_reduce(total_norm, group=fsdp_group)
    _clip(grad_tensors, max_norm / total_norm)
    return total_norm


def norm_after_clipping(grad_tensors: list[Tensor], max_norm: float, norm_type: float, fsdp_group: Group) -> Tensor:
    """Clips rightly and returns the norm that is left."""
    factor_in_input_dtype(grad_tensors, max_norm, norm_type, fsdp_group)
    return not_clipped(grad_tensors, max_norm, norm_type, fsdp_group)


HONEST = {"float64": in_float64, "factor_in_input_dtype": factor_in_input_dtype}
MUTANTS = {
    "not_clipped": not_clipped,
    "last_tensor_not_clipped": last_tensor_not_clipped,
    "clipped_by_own_norm": clipped_by_own_norm,
    "own_norm_extrapolated": own_norm_extrapolated,
    "norms_added": norms_added,
    "norm_after_clipping": norm_after_clipping,
}
NARROW = {
    "below_the_limit": always_clips,
    "huge_values": saturates,
    "zero_rows": skips_by_first_row,
    "near_the_limit": always_clips,
    "least_gradients": epsilon_in_the_norm,
    "nothing_to_clip": smaller_factor,
}
