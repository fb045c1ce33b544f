"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p019_blocked_fp8_quantize.reference import solution

E4M3 = torch.float8_e4m3fn


def _gathered(y: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """Both parts of all ranks, by lists of tensors."""
    codes = [torch.empty_like(y, dtype=torch.uint8) for _ in range(dist.get_world_size())]
    scales = [torch.empty_like(s) for _ in codes]
    dist.all_gather(codes, y.contiguous().view(torch.uint8))
    dist.all_gather(scales, s)
    return torch.cat(codes).view(E4M3), torch.cat(scales)


def _blocks(local_tensor: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    """Blocks in float32 and their largest magnitudes."""
    blocks = local_tensor.float().view(local_tensor.shape[0], -1, block_size)
    return blocks, blocks.abs().amax(dim=-1, keepdim=True)


def _finish(quotient: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    return _gathered(quotient.clamp(-448, 448).to(E4M3).flatten(-2), s.squeeze(-1))


def by_reciprocal(local_tensor: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    """Multiplies by the reciprocal of the scale: a few quotients fall on the other side of a tie."""
    blocks, peak = _blocks(local_tensor, block_size)
    s = peak / 448
    return _finish(blocks * torch.where(s > 0, 1 / s, 1.0), s)


def by_inverse_scale(local_tensor: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    """Multiplies by 448 over the largest magnitude, and keeps a scale of the same making."""
    blocks, peak = _blocks(local_tensor, block_size)
    return _finish(blocks * torch.where(peak > 0, 448 / peak, 1.0), peak * (1 / 448))


def rounded_up(local_tensor: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    """An approximate division whose quotients are one unit in the last place too large, where they are not exact."""
    blocks, peak = _blocks(local_tensor, block_size)
    s = peak / 448
    divisor = s.where(s > 0, 1.0)
    quotient = blocks / divisor
    is_exact = quotient.double() * divisor.double() == blocks.double()
    return _finish(torch.where(is_exact, quotient, quotient.nextafter(quotient.sign() * torch.inf)), s)


def one_scale_per_row(local_tensor: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    """The largest magnitude of the whole row in every block."""
    blocks, peak = _blocks(local_tensor, block_size)
    s = peak.amax(dim=1, keepdim=True).expand_as(peak) / 448
    return _finish(blocks / s.where(s > 0, 1.0), s)


def one_for_zero_blocks(local_tensor: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    """Stores 1 as the scale of a zero block."""
    y, s = solution(local_tensor, block_size)
    return y, s.where(s > 0, 1.0)


def scales_in_bfloat16(local_tensor: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    """Sends scales rounded to bfloat16."""
    y, s = solution(local_tensor, block_size)
    return y, s.bfloat16().float()


def truncated(local_tensor: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    """Rounds toward zero: every quotient is cut to four significant bits first."""
    blocks, peak = _blocks(local_tensor, block_size)
    s = peak / 448
    quotient = (blocks / s.where(s > 0, 1.0)).view(torch.int32).bitwise_and(~((1 << 20) - 1))
    return _finish(quotient.view(torch.float32), s)


def through_e5m2(local_tensor: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    """Rounds to e5m2 on the way."""
    blocks, peak = _blocks(local_tensor, block_size)
    s = peak / 448
    return _finish((blocks / s.where(s > 0, 1.0)).to(torch.float8_e5m2).float(), s)


def halves_away_from_zero(local_tensor: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    """A conversion written by hand that adds half a code before it cuts: halves go away from zero."""
    blocks, peak = _blocks(local_tensor, block_size)
    s = peak / 448
    quotient = blocks / s.where(s > 0, 1.0)
    code = (quotient.abs().clamp(min=2.0**-6).log2().floor() - 3).exp2()
    return _finish(quotient.sign() * (quotient.abs() / code + 0.5).floor() * code, s)


def floor_under_the_largest(local_tensor: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    """Takes no largest magnitude but zero for less than 1e-4."""
    blocks, peak = _blocks(local_tensor, block_size)
    s = peak.where(peak == 0, peak.clamp(min=1e-4)) / 448
    return _finish(blocks / s.where(s > 0, 1.0), s)


def floor_under_the_scale(local_tensor: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    """Takes no scale but zero for less than 1e-20, lest something be divided by zero."""
    blocks, peak = _blocks(local_tensor, block_size)
    s = peak.where(peak == 0, (peak / 448).clamp(min=1e-20))
    return _finish(blocks / s.where(s > 0, 1.0), s)


def saturates(local_tensor: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    """Takes no element for more than 2^16."""
    return solution(local_tensor.clamp(-(2**16), 2**16), block_size)


def up_to_1e15(local_tensor: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    """Takes no element for more than 1e15."""
    return solution(local_tensor.clamp(-1e15, 1e15), block_size)


def power_of_two(local_tensor: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    """Blocks of a power of two: the largest that the argument reaches."""
    return solution(local_tensor, 1 << (block_size.bit_length() - 1))


def known_block_sizes(local_tensor: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    """Blocks of 128 in wide rows and of 32 in others, whatever the argument says."""
    del block_size
    return solution(local_tensor, 128 if local_tensor.shape[1] >= 1024 else 32)


HONEST = {"by_reciprocal": by_reciprocal, "by_inverse_scale": by_inverse_scale, "rounded_up": rounded_up}
MUTANTS = {
    "one_scale_per_row": one_scale_per_row,
    "one_for_zero_blocks": one_for_zero_blocks,
    "scales_in_bfloat16": scales_in_bfloat16,
    "truncated": truncated,
    "through_e5m2": through_e5m2,
}
NARROW = {
    "tiny_values": floor_under_the_largest,
    "smallest_values": floor_under_the_scale,
    "huge_values": saturates,
    "halves": halves_away_from_zero,
    "other_block_size": known_block_sizes,
    "largest_values": up_to_1e15,
    "whole_rows": power_of_two,
}
