"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import all_gathered

E4M3 = torch.float8_e4m3fn


def _shifted(x: Tensor, history: Tensor) -> Tensor:
    """The history with the maximum of `x` appended."""
    return torch.cat([history[1:], x.abs().max().to(history.dtype).view(1)])


def _scale(history: Tensor) -> Tensor:
    return history.max().clamp(min=1e-12).float() / 448


def _codes(x: Tensor, scale: Tensor) -> Tensor:
    return (x.float() / scale).clamp(-448, 448).to(E4M3)


def _gathered(codes: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    """Codes and scales of all ranks, reconstructed on arrival."""
    scales = torch.cat(all_gathered(scale.view(1)))
    every = torch.stack(all_gathered(codes.view(torch.uint8))).view(E4M3)
    return (every.float() * scales.unsqueeze(1)).to(dtype).flatten()


def _finish(x: Tensor, scale: Tensor) -> Tensor:
    return _gathered(_codes(x, scale), scale, x.dtype)


def codes_on_the_wire(flat_param_shard: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Sends codes and the scale."""
    updated = _shifted(flat_param_shard, amax_history)
    return _finish(flat_param_shard, _scale(updated)), updated


def by_reciprocal(flat_param_shard: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Multiplies by the reciprocal of the scale, whose floor is not rounded to bfloat16: some ties fall elsewhere."""
    updated = _shifted(flat_param_shard, amax_history)
    scale = updated.max().float().clamp(min=1e-12) / 448
    codes = (flat_param_shard.float() * (1 / scale)).clamp(-448, 448).to(E4M3)
    return _gathered(codes, scale, flat_param_shard.dtype), updated


def two_halves(flat_param_shard: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Gathers the shard in two pieces and puts them together."""
    updated = _shifted(flat_param_shard, amax_history)
    scale = _scale(updated)
    pieces = [_gathered(codes, scale, flat_param_shard.dtype) for codes in _codes(flat_param_shard, scale).chunk(2)]
    rows = [piece.view(dist.get_world_size(), -1) for piece in pieces]
    return torch.cat(rows, dim=1).flatten(), updated


def not_rounded(flat_param_shard: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Gathers the parameters as they are."""
    return torch.cat(all_gathered(flat_param_shard)), _shifted(flat_param_shard, amax_history)


def current_scaling(flat_param_shard: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """The scale from the tensor itself, whatever the history says."""
    updated = _shifted(flat_param_shard, amax_history)
    return _finish(flat_param_shard, _scale(updated[-1])), updated


def scale_of_the_old_history(flat_param_shard: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """The scale from the history before the update."""
    return _finish(flat_param_shard, _scale(amax_history)), _shifted(flat_param_shard, amax_history)


def one_scale_for_all(flat_param_shard: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """The largest scale of all ranks."""
    updated = _shifted(flat_param_shard, amax_history)
    return _finish(flat_param_shard, torch.cat(all_gathered(_scale(updated).view(1))).max()), updated


def shifted_the_other_way(flat_param_shard: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Puts the new maximum in front and drops the last entry."""
    full, updated = codes_on_the_wire(flat_param_shard, amax_history)
    return full, torch.cat([updated[-1:], amax_history[:-1]])


def history_rotated(flat_param_shard: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Moves the oldest entry to the end in place of the new maximum."""
    full, _ = codes_on_the_wire(flat_param_shard, amax_history)
    return full, amax_history.roll(-1)


def power_of_two_scale(flat_param_shard: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """The scale rounded up to a power of two."""
    updated = _shifted(flat_param_shard, amax_history)
    return _finish(flat_param_shard, _scale(updated).log2().ceil().exp2()), updated


def least_magnitude_1e_3(flat_param_shard: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Takes no largest magnitude for less than 1e-3."""
    updated = _shifted(flat_param_shard, amax_history)
    return _finish(flat_param_shard, _scale(updated.clamp(min=1e-3))), updated


def by_ratio_to_the_history(flat_param_shard: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Finds the largest magnitude as a multiple of the history's."""
    updated = _shifted(flat_param_shard, amax_history)
    before = amax_history[1:].max().float()
    scale = before * (updated[-1] / before).clamp(min=1) / 448
    return _finish(flat_param_shard, scale), updated


def no_entry_beyond_16_times(flat_param_shard: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Takes no entry of the history for more than 16 times the present maximum."""
    updated = _shifted(flat_param_shard, amax_history)
    bounded = updated.minimum(16 * updated[-1]) if updated[-1] else updated
    return _finish(flat_param_shard, _scale(bounded)), updated


def without_floor(flat_param_shard: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """No floor under the largest magnitude."""
    updated = _shifted(flat_param_shard, amax_history)
    scale = updated.max().float() / 448
    return _finish(flat_param_shard, scale), updated


def floor_under_the_scale(flat_param_shard: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """The floor under the scale in place of the largest magnitude."""
    updated = _shifted(flat_param_shard, amax_history)
    scale = (updated.max().float() / 448).clamp(min=1e-12)
    return _finish(flat_param_shard, scale), updated


def sixteen_codes_at_a_time(flat_param_shard: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Sixteen codes at a time; what is left of a shard is zero."""
    full, updated = codes_on_the_wire(flat_param_shard, amax_history)
    full.view(dist.get_world_size(), -1)[:, flat_param_shard.numel() // 16 * 16 :] = 0
    return full, updated


def beyond_8192_unseen(flat_param_shard: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Sees no more than 8192 elements of a shard, and returns zeros for the others."""
    full, updated = codes_on_the_wire(flat_param_shard, amax_history)
    full.view(dist.get_world_size(), -1)[:, 8192:] = 0
    return full, updated


def nothing_new_not_recorded(flat_param_shard: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Leaves the history as it is where all parameters are zero."""
    full, updated = codes_on_the_wire(flat_param_shard, amax_history)
    return full, updated if flat_param_shard.any() else amax_history.clone()


def tail_of_few_left_out(flat_param_shard: Tensor, amax_history: Tensor) -> tuple[Tensor, Tensor]:
    """Reads the last 64 elements once more for a tail; fewer are read four at a time."""
    full, updated = codes_on_the_wire(flat_param_shard, amax_history)
    count = flat_param_shard.numel()
    if count < 64:
        full.view(dist.get_world_size(), -1)[:, count // 4 * 4 :] = 0
    return full, updated


HONEST = {"codes_on_the_wire": codes_on_the_wire, "by_reciprocal": by_reciprocal, "two_halves": two_halves}
MUTANTS = {
    "not_rounded": not_rounded,
    "current_scaling": current_scaling,
    "scale_of_the_old_history": scale_of_the_old_history,
    "one_scale_for_all": one_scale_for_all,
    "shifted_the_other_way": shifted_the_other_way,
    "history_rotated": history_rotated,
    "power_of_two_scale": power_of_two_scale,
}
NARROW = {
    "tiny_values": least_magnitude_1e_3,
    "first_step": by_ratio_to_the_history,
    "old_outlier": no_entry_beyond_16_times,
    "below_the_floor": without_floor,
    "near_the_floor": floor_under_the_scale,
    "other_extents": sixteen_codes_at_a_time,
    "nothing_new": nothing_new_not_recorded,
    "few_elements": tail_of_few_left_out,
    "long_shards": beyond_8192_unseen,
}
