"""Programs that must pass and programs that must fail."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import conv3d, pad

from problems.catalog.p076_opensora_conv3d_allreduce.reference import solution
from problems.families.rank_parts import added_backwards, all_gathered


def in_float32(video: Tensor, weight: Tensor, bias: Tensor, *rest: Any) -> Tensor:
    """Partial results, sum and bias in float32, rounded once."""
    return solution(video.float(), weight.float(), bias.float(), *rest).to(video.dtype)


def frame_by_frame(
    video: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int, dilation: int, *rest: Any
) -> Tensor:
    """Reduces one output frame while, on a device, the next could be convolved."""
    depth, padded = dilation * (weight.shape[2] - 1) + 1, pad(video, [padding] * 6)
    frames = range(0, padded.shape[2] - depth + 1, stride)
    return torch.cat(
        [solution(padded[:, :, start : start + depth], weight, bias, stride, 0, dilation, *rest) for start in frames],
        dim=2,
    )


def gathered_backwards(
    video: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int, dilation: int, *_rest: Any
) -> Tensor:
    """Gathers rounded partial results and adds them in the run's dtype, last rank first."""
    own = conv3d(video, weight, stride=stride, padding=padding, dilation=dilation)
    return added_backwards(all_gathered(own)) + bias[:, None, None, None]


def bias_on_every_rank(video: Tensor, weight: Tensor, bias: Tensor, *_rest: Any) -> Tensor:
    """Adds the bias before the sum, W times."""
    out = conv3d(video, weight, bias)
    dist.all_reduce(out)
    return out


def without_bias(video: Tensor, weight: Tensor, _bias: Tensor, *rest: Any) -> Tensor:
    """Forgets the bias."""
    return solution(video, weight, None, *rest)


def kernel_flipped(video: Tensor, weight: Tensor, *rest: Any) -> Tensor:
    """Runs the kernel backwards in time."""
    return solution(video, weight.flip(2), *rest)


def axes_swapped(video: Tensor, weight: Tensor, *rest: Any) -> Tensor:
    """Takes height for width in the kernel."""
    return solution(video, weight.transpose(3, 4), *rest)


def middle_frame_only(video: Tensor, weight: Tensor, *rest: Any) -> Tensor:
    """A two-dimensional convolution of each middle frame."""
    middle = torch.zeros_like(weight)
    middle[:, :, 1] = weight[:, :, 1]
    return solution(video, middle, *rest)


def operands_in_float8(video: Tensor, weight: Tensor, *rest: Any) -> Tensor:
    """Rounds both operands to 8 bits (e4m3, one scale each)."""
    scales = (video.float().abs().max() / 448, weight.float().abs().max() / 448)
    video, weight = (
        ((one.float() / scale).to(torch.float8_e4m3fn).float() * scale).to(one.dtype)
        for one, scale in zip((video, weight), scales, strict=True)
    )
    return solution(video, weight, *rest)


def border_repeated(video: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int, *rest: Any) -> Tensor:
    """Repeats the video's border beyond it, where zeros belong."""
    wide = pad(video.float(), [padding] * 6, mode="replicate").to(video.dtype)
    return solution(wide, weight, bias, stride, 0, *rest)


HONEST = {"float32": in_float32, "frame_by_frame": frame_by_frame, "gathered_backwards": gathered_backwards}
MUTANTS = {
    "bias_on_every_rank": bias_on_every_rank,
    "without_bias": without_bias,
    "kernel_flipped": kernel_flipped,
    "axes_swapped": axes_swapped,
    "middle_frame_only": middle_frame_only,
    "operands_in_float8": operands_in_float8,
}
NARROW = {"padding_1": border_repeated}
