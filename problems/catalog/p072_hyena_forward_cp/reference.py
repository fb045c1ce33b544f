"""The baseline: all three streams in one all-to-all, library transforms in float32, one all-to-all back."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(
    x1_seq: Tensor,
    x2_seq: Tensor,
    v_seq: Tensor,
    h: Tensor,
    conv_bias: Tensor,
    num_groups: int,
    group_dim: int,
    group: "dist.ProcessGroup | None" = None,
    with_zigzag_splitting: bool = True,
) -> Tensor:
    """The rank's positions of x1 * conv(x2 * v, h), as (B, Ls, C)."""
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    x1, x2, v = _to_channels(torch.stack((x1_seq, x2_seq, v_seq)), group, is_zigzag=with_zigzag_splitting)
    groups, channels = num_groups // world_size, x1.shape[1]
    filters = h[rank * groups : (rank + 1) * groups].repeat_interleave(group_dim, dim=0)
    bias = conv_bias[rank * channels : (rank + 1) * channels]
    z = x1 * _convolve(x2 * v, filters, bias)
    return _to_positions(z, group, is_zigzag=with_zigzag_splitting).transpose(1, 2).contiguous()


def _convolve(u: Tensor, filters: Tensor, bias: Tensor) -> Tensor:
    """Causal convolution of `u` (B, C, L) with one filter per channel, plus bias times `u`, in float32 inside."""
    wide, length = u.float(), u.shape[-1]
    product = torch.fft.rfft(wide, 2 * length) * torch.fft.rfft(filters.float(), 2 * length)
    y = torch.fft.irfft(product, 2 * length)[..., :length]
    return (y + wide * bias.float()[:, None]).to(u.dtype)


def _to_channels(streams: Tensor, group: "dist.ProcessGroup | None", *, is_zigzag: bool) -> Tensor:
    """Shards (S, B, C, Ls) of the positions become shards (S, B, C/W, W Ls) of the channels."""
    world_size = dist.get_world_size(group)
    sent = torch.stack(streams.chunk(world_size, dim=2))
    parts = torch.empty_like(sent)
    dist.all_to_all_single(parts, sent, group=group)
    if not is_zigzag:
        return torch.cat(parts.unbind(), dim=-1)
    early, late = parts.chunk(2, dim=-1)
    return torch.cat((*early.unbind(), *late.flip(0).unbind()), dim=-1)


def _to_positions(z: Tensor, group: "dist.ProcessGroup | None", *, is_zigzag: bool) -> Tensor:
    """A shard (B, C/W, W Ls) of the channels becomes a shard (B, C, Ls) of the positions."""
    world_size = dist.get_world_size(group)
    if is_zigzag:
        early, late = z.chunk(2, dim=-1)
        pairs = zip(early.chunk(world_size, -1), reversed(late.chunk(world_size, -1)), strict=True)
        sent = torch.stack([torch.cat(pair, dim=-1) for pair in pairs])
    else:
        sent = torch.stack(z.chunk(world_size, dim=-1))
    parts = torch.empty_like(sent)
    dist.all_to_all_single(parts, sent, group=group)
    return torch.cat(parts.unbind(), dim=1)
