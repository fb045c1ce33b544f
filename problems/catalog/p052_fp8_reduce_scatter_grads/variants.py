"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p052_fp8_reduce_scatter_grads.reference import solution
from problems.families.rank_parts import added_backwards

E4M3 = torch.float8_e4m3fn


def _shifted(x: Tensor, history: Tensor) -> Tensor:
    """The history with the maximum of `x` appended."""
    return torch.cat([history[1:], x.abs().max().to(history.dtype).view(1)])


def _scale(history: Tensor) -> Tensor:
    return history.max().clamp(min=1e-12).float() / 448


def _through(x: Tensor, scale: Tensor) -> Tensor:
    """`x` after e4m3, in float32."""
    return (x.float() / scale).clamp(-448, 448).to(E4M3).float() * scale


def _mean(wide: Tensor, dtype: torch.dtype) -> Tensor:
    """The own slice of the mean, added in float32 and rounded once."""
    slices = torch.empty_like(wide)
    dist.all_to_all_single(slices, wide)
    return slices.view(dist.get_world_size(), -1).mean(dim=0).to(dtype)


def codes_on_the_wire(flat_grads: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Exchanges codes and scales, reconstructs and adds on arrival."""
    updated, world_size = _shifted(flat_grads, amax_history), dist.get_world_size()
    scale = _scale(updated)
    codes = (flat_grads.float() / scale).clamp(-448, 448).to(E4M3).view(torch.uint8)
    received = torch.empty_like(codes)
    dist.all_to_all_single(received, codes)
    scales = [torch.empty_like(scale) for _ in range(world_size)]
    dist.all_gather(scales, scale)
    values = received.view(E4M3).float().view(world_size, -1) * torch.stack(scales).unsqueeze(1)
    return values.mean(dim=0).to(flat_grads.dtype), updated


def backwards(flat_grads: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Adds in the run's dtype, last rank first; divides at the end."""
    updated, world_size = _shifted(flat_grads, amax_history), dist.get_world_size()
    local = _through(flat_grads, _scale(updated)).to(flat_grads.dtype)
    slices = torch.empty_like(local)
    dist.all_to_all_single(slices, local)
    parts = list(slices.view(world_size, -1))
    return added_backwards(parts) / world_size, updated


def by_reciprocal(flat_grads: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Multiplies by the reciprocal of the scale, and divides by W before it adds."""
    updated = _shifted(flat_grads, amax_history)
    scale = _scale(updated)
    local = (flat_grads.float() * (1 / scale)).clamp(-448, 448).to(E4M3).float() * scale
    total = (local / dist.get_world_size()).to(flat_grads.dtype)
    dist.all_reduce(total)
    return total.chunk(dist.get_world_size())[dist.get_rank()].clone(), updated


def not_rounded(flat_grads: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """A plain mean."""
    return _mean(flat_grads.float(), flat_grads.dtype), _shifted(flat_grads, amax_history)


def current_scaling(flat_grads: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """The scale from the tensor itself, whatever the history says."""
    updated = _shifted(flat_grads, amax_history)
    return _mean(_through(flat_grads, _scale(updated[-1])), flat_grads.dtype), updated


def scale_of_the_old_history(flat_grads: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """The scale from the history before the update."""
    wide = _through(flat_grads, _scale(amax_history))
    return _mean(wide, flat_grads.dtype), _shifted(flat_grads, amax_history)


def one_scale_for_all(flat_grads: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """The largest scale of all ranks."""
    updated = _shifted(flat_grads, amax_history)
    scale = _scale(updated)
    dist.all_reduce(scale, op=dist.ReduceOp.MAX)
    return _mean(_through(flat_grads, scale), flat_grads.dtype), updated


def rounded_after_the_mean(flat_grads: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Averages first and takes the mean through e4m3."""
    updated = _shifted(flat_grads, amax_history)
    mean = _mean(flat_grads.float(), torch.float32)
    return _through(mean, _scale(updated)).to(flat_grads.dtype), updated


def summed(flat_grads: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """The sum in place of the mean."""
    mean, updated = solution(flat_grads, amax_history)
    return mean * dist.get_world_size(), updated


def history_rotated(flat_grads: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Moves the oldest entry to the end in place of the new maximum."""
    return solution(flat_grads, amax_history)[0], amax_history.roll(-1)


def history_of_all_ranks(flat_grads: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Appends the maximum over all ranks in place of its own."""
    mean, updated = solution(flat_grads, amax_history)
    largest = updated[-1:].float()
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    return mean, torch.cat([updated[:-1], largest.to(updated.dtype)])


def least_magnitude_1e_3(flat_grads: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Takes no largest magnitude for less than 1e-3."""
    updated = _shifted(flat_grads, amax_history)
    return _mean(_through(flat_grads, _scale(updated.clamp(min=1e-3))), flat_grads.dtype), updated


def by_ratio_to_the_history(flat_grads: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Finds the largest magnitude as a multiple of the history's."""
    updated = _shifted(flat_grads, amax_history)
    before = amax_history[1:].max().float()
    scale = before * (updated[-1] / before).clamp(min=1) / 448
    return _mean(_through(flat_grads, scale), flat_grads.dtype), updated


def no_entry_beyond_16_times(flat_grads: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Takes no entry of the history for more than 16 times the present maximum."""
    updated = _shifted(flat_grads, amax_history)
    bounded = updated.minimum(16 * updated[-1]) if updated[-1] else updated
    return _mean(_through(flat_grads, _scale(bounded)), flat_grads.dtype), updated


def without_floor(flat_grads: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """No floor under the largest magnitude."""
    updated = _shifted(flat_grads, amax_history)
    scale = updated.max().float() / 448
    return _mean(_through(flat_grads, scale), flat_grads.dtype), updated


def floor_under_the_scale(flat_grads: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """The floor under the scale in place of the largest magnitude."""
    updated = _shifted(flat_grads, amax_history)
    scale = (updated.max().float() / 448).clamp(min=1e-12)
    return _mean(_through(flat_grads, scale), flat_grads.dtype), updated


def in_blocks_of_2000(flat_grads: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Returns whole blocks of 2000 elements; what is left of a slice is zero."""
    mean, updated = solution(flat_grads, amax_history)
    mean[mean.numel() // 2000 * 2000 :] = 0
    return mean, updated


def beyond_8192_unseen(flat_grads: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Sees no more than 8192 elements of a slice, and returns zeros for the others."""
    mean, updated = solution(flat_grads, amax_history)
    mean[8192:] = 0
    return mean, updated


def nothing_new_not_recorded(flat_grads: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Leaves the history as it is where all gradients are zero."""
    mean, updated = solution(flat_grads, amax_history)
    return mean, updated if flat_grads.any() else amax_history.clone()


def tail_of_few_left_out(flat_grads: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Reads the last 256 elements once more for a tail; fewer are read sixteen at a time."""
    count = flat_grads.numel()
    kept = (
        flat_grads if count >= 256 else torch.cat([flat_grads[: count // 16 * 16], flat_grads[count // 16 * 16 :] * 0])
    )
    return solution(kept, amax_history)[0], _shifted(flat_grads, amax_history)


HONEST = {"codes_on_the_wire": codes_on_the_wire, "backwards": backwards, "by_reciprocal": by_reciprocal}
MUTANTS = {
    "not_rounded": not_rounded,
    "current_scaling": current_scaling,
    "scale_of_the_old_history": scale_of_the_old_history,
    "one_scale_for_all": one_scale_for_all,
    "rounded_after_the_mean": rounded_after_the_mean,
    "summed": summed,
    "history_rotated": history_rotated,
    "history_of_all_ranks": history_of_all_ranks,
}
NARROW = {
    "tiny_values": least_magnitude_1e_3,
    "first_step": by_ratio_to_the_history,
    "old_outlier": no_entry_beyond_16_times,
    "below_the_floor": without_floor,
    "near_the_floor": floor_under_the_scale,
    "other_extents": in_blocks_of_2000,
    "nothing_new": nothing_new_not_recorded,
    "few_elements": tail_of_few_left_out,
    "long_shards": beyond_8192_unseen,
}
