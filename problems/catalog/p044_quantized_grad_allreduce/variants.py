"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import pad

from problems.catalog.p044_quantized_grad_allreduce.reference import solution


def _blocks(flat_grad: Tensor, block_size: int) -> Tensor:
    """The padded gradient in float32, one block per row."""
    return pad(flat_grad, (0, -flat_grad.numel() % block_size)).float().view(-1, block_size)


def _step(blocks: Tensor, levels: int = 127) -> Tensor:
    return blocks.abs().amax(dim=1, keepdim=True).clamp(min=1e-8) / levels


def _mean(local: Tensor, like: Tensor) -> Tensor:
    """The mean over ranks, cut to the length and rounded to the dtype of `like`."""
    total = local.flatten()[: like.numel()].clone()
    dist.all_reduce(total)
    return (total / dist.get_world_size()).to(like.dtype)


def codes_on_the_wire(flat_grad: Tensor, block_size: int) -> Tensor:
    """Gathers codes and steps, and reconstructs and adds on arrival, last rank first."""
    blocks = _blocks(flat_grad, block_size)
    step = _step(blocks)
    codes = (blocks / step).round().to(torch.int8)
    all_codes = [torch.empty_like(codes) for _ in range(dist.get_world_size())]
    all_steps = [torch.empty_like(step) for _ in all_codes]
    dist.all_gather(all_codes, codes)
    dist.all_gather(all_steps, step)
    total = torch.zeros_like(blocks)
    for code, size in zip(all_codes[::-1], all_steps[::-1], strict=True):
        total += code * size
    return (total / len(all_codes)).flatten()[: flat_grad.numel()].to(flat_grad.dtype)


def by_reciprocal(flat_grad: Tensor, block_size: int) -> Tensor:
    """Multiplies by the reciprocal of the step, and divides by W before the sum."""
    blocks = _blocks(flat_grad, block_size)
    step = _step(blocks)
    local = (blocks * (1 / step)).round().clamp(-127, 127) * step / dist.get_world_size()
    return _mean(local * dist.get_world_size(), flat_grad)


def scattered_then_gathered(flat_grad: Tensor, block_size: int) -> Tensor:
    """Every rank averages a slice in float64 and hands it out rounded."""
    blocks, world_size = _blocks(flat_grad, block_size), dist.get_world_size()
    step = _step(blocks)
    local = ((blocks / step).round() * step).flatten()
    padded = pad(local, (0, -local.numel() % world_size))
    slices = torch.empty_like(padded)
    dist.all_to_all_single(slices, padded)
    mean = slices.view(world_size, -1).double().mean(dim=0).to(flat_grad.dtype)
    whole = padded.new_empty(padded.numel(), dtype=flat_grad.dtype)
    dist.all_gather_into_tensor(whole, mean)
    return whole[: flat_grad.numel()].clone()


def not_quantised(flat_grad: Tensor, block_size: int) -> Tensor:
    """A plain mean in float32."""
    del block_size
    return _mean(flat_grad.float(), flat_grad)


def truncated(flat_grad: Tensor, block_size: int) -> Tensor:
    """Rounds toward zero."""
    blocks = _blocks(flat_grad, block_size)
    step = _step(blocks)
    return _mean((blocks / step).trunc() * step, flat_grad)


def half_blocks(flat_grad: Tensor, block_size: int) -> Tensor:
    """Blocks half as long."""
    return solution(flat_grad, block_size // 2)


def one_block(flat_grad: Tensor, block_size: int) -> Tensor:
    """One step for the whole gradient."""
    del block_size
    return solution(flat_grad, flat_grad.numel())


def floats_in_8_bits(flat_grad: Tensor, block_size: int) -> Tensor:
    """e4m3 in place of int8."""
    blocks = _blocks(flat_grad, block_size)
    step = _step(blocks, 448)
    return _mean((blocks / step).to(torch.float8_e4m3fn).float() * step, flat_grad)


def summed(flat_grad: Tensor, block_size: int) -> Tensor:
    """The sum in place of the mean."""
    return solution(flat_grad, block_size) * dist.get_world_size()


def quantised_after_the_mean(flat_grad: Tensor, block_size: int) -> Tensor:
    """Averages first and rounds the mean to 8 bits."""
    blocks = _blocks(_mean(flat_grad.float(), flat_grad), block_size)
    step = _step(blocks)
    return ((blocks / step).round() * step).flatten()[: flat_grad.numel()].to(flat_grad.dtype)


def zero_blocks_unguarded(flat_grad: Tensor, block_size: int) -> Tensor:
    """Without the floor under the largest magnitude: 0 / 0 in zero blocks."""
    blocks = _blocks(flat_grad, block_size)
    step = blocks.abs().amax(dim=1, keepdim=True) / 127
    return _mean((blocks / step).round() * step, flat_grad)


def halves_away_from_zero(flat_grad: Tensor, block_size: int) -> Tensor:
    """Rounds halves away from zero, as the function `round` of C does."""
    blocks = _blocks(flat_grad, block_size)
    step = _step(blocks)
    quotient = blocks / step
    return _mean(quotient.sign() * (quotient.abs() + 0.5).floor() * step, flat_grad)


def floor_under_zero_alone(flat_grad: Tensor, block_size: int) -> Tensor:
    """The floor in place of a largest magnitude of zero, and of no other."""
    blocks = _blocks(flat_grad, block_size)
    largest = blocks.abs().amax(dim=1, keepdim=True)
    step = largest.where(largest > 0, 1e-8) / 127
    return _mean((blocks / step).round() * step, flat_grad)


def floor_under_all_or_none(flat_grad: Tensor, block_size: int) -> Tensor:
    """The floor where the whole gradient is below it, and else under zero blocks alone."""
    largest = _blocks(flat_grad, block_size).abs().max()
    return floor_under_zero_alone(flat_grad, block_size) if largest > 1e-8 else solution(flat_grad, block_size)


def without_padding(flat_grad: Tensor, block_size: int) -> Tensor:
    """Cuts the padding off by its length, and so everything where there is none."""
    padding = -flat_grad.numel() % block_size
    blocks = _blocks(flat_grad, block_size)
    step = _step(blocks)
    local = ((blocks / step).round() * step).flatten()[:-padding].clone()
    dist.all_reduce(local)
    return (local / dist.get_world_size()).to(flat_grad.dtype)


def longest_of_first_512(flat_grad: Tensor, block_size: int) -> Tensor:
    """Looks for a block's largest magnitude among its first 512 elements, one for each thread."""
    blocks = _blocks(flat_grad, block_size)
    step = _step(blocks[:, :512])
    return _mean((blocks / step).round().clamp(-127, 127) * step, flat_grad)


def longest_of_first_32(flat_grad: Tensor, block_size: int) -> Tensor:
    """Looks for the largest magnitude of an only block among the 32 elements that a warp reads first."""
    blocks = _blocks(flat_grad, block_size)
    step = _step(blocks if len(blocks) > 1 else blocks[:, :32])
    return _mean((blocks / step).round().clamp(-127, 127) * step, flat_grad)


def codes_added_where_steps_agree(flat_grad: Tensor, block_size: int) -> Tensor:
    """Adds 8-bit codes up in 8 bits where all ranks have the same steps."""
    blocks = _blocks(flat_grad, block_size)
    step = _step(blocks)
    least, most = step.clone(), step.clone()
    dist.all_reduce(least, op=dist.ReduceOp.MIN)
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    codes = (blocks / step).round().to(torch.int8)
    if not torch.equal(least, most):
        return _mean(codes * step, flat_grad)
    dist.all_reduce(codes)
    return ((codes * step) / dist.get_world_size()).flatten()[: flat_grad.numel()].to(flat_grad.dtype)


def known_block_sizes(flat_grad: Tensor, block_size: int) -> Tensor:
    """Blocks of 128 in long gradients and of 32 in others, whatever the argument says."""
    del block_size
    return solution(flat_grad, 128 if flat_grad.numel() >= 2**20 else 32)


def in_equal_slices(flat_grad: Tensor, block_size: int) -> Tensor:
    """Averages in equal slices, one for each rank; the elements that are left over stay as they are."""
    blocks, world_size = _blocks(flat_grad, block_size), dist.get_world_size()
    step = _step(blocks)
    local = ((blocks / step).round() * step).flatten()[: flat_grad.numel()]
    length = len(local) // world_size * world_size
    return torch.cat([_mean(local[:length], flat_grad[:length]), flat_grad[length:]])


def last_blocks_of_28(flat_grad: Tensor, block_size: int) -> Tensor:
    """Leaves a last block out that has fewer than 28 elements, which it has in calls at `tiny`."""
    out, rest = solution(flat_grad, block_size), flat_grad.numel() % block_size
    out[len(out) - rest :] *= rest >= 28
    return out


HONEST = {
    "codes_on_the_wire": codes_on_the_wire,
    "by_reciprocal": by_reciprocal,
    "scattered": scattered_then_gathered,
}
MUTANTS = {
    "not_quantised": not_quantised,
    "truncated": truncated,
    "half_blocks": half_blocks,
    "one_block": one_block,
    "floats_in_8_bits": floats_in_8_bits,
    "summed": summed,
    "quantised_after_the_mean": quantised_after_the_mean,
    "zero_blocks_unguarded": zero_blocks_unguarded,
}
NARROW = {
    "below_the_floor": floor_under_zero_alone,
    "around_the_floor": floor_under_all_or_none,
    "halves": halves_away_from_zero,
    "other_block_size": known_block_sizes,
    "whole_blocks": without_padding,
    "other_end": last_blocks_of_28,
    "long_blocks": longest_of_first_512,
    "one_block": longest_of_first_32,
    "same_on_all_ranks": codes_added_where_steps_agree,
    "few_elements": in_equal_slices,
}
