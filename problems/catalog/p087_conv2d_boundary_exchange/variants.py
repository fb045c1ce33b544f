"""Programs that must pass and programs that must fail."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

from problems.catalog.p087_conv2d_boundary_exchange.reference import solution, with_halo
from problems.families.rank_parts import all_gathered


def in_float32(x: Tensor, weight: Tensor, bias: Tensor, *rest: Any) -> Tensor:
    """Everything in float32, rounded once."""
    return solution(x.float(), weight.float(), bias.float(), *rest).to(x.dtype)


def whole_image(x: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int, _group: Any) -> Tensor:
    """Gathers the image, convolves it everywhere and keeps the own strip."""
    parts = all_gathered(x)
    out = functional.conv2d(torch.cat(parts, dim=2), weight, bias, stride=stride, padding=padding)
    return out.chunk(len(parts), dim=2)[dist.get_rank()].contiguous()


def edges_last(x: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int, group: Any) -> Tensor:
    """Inner rows without waiting for anybody, then the two edge rows by the halo."""
    extended = with_halo(x, padding, group)
    top = functional.conv2d(extended[:, :, :3], weight, bias, stride=stride, padding=(0, padding))
    inner = top[:, :, :0]  # two rows are both at an edge
    if x.shape[2] > 2:
        inner = functional.conv2d(x[:, :, stride - 1 :], weight, bias, stride=stride, padding=(0, padding))
    if stride > 1:  # the last row of the result looks at no row of the strip below
        return torch.cat([top, inner], dim=2)
    bottom = functional.conv2d(extended[:, :, -3:], weight, bias, padding=(0, padding))
    return torch.cat([top, inner, bottom], dim=2)


def as_product(x: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int, group: Any) -> Tensor:
    """A matrix product with unfolded patches."""
    patches = functional.unfold(with_halo(x, padding, group), 3, padding=(0, padding), stride=stride)
    product = weight.flatten(1) @ patches + bias[:, None]
    return product.unflatten(2, (x.shape[2] // stride, x.shape[3] // stride))


def halo_by_replication(x: Tensor, weight: Tensor, bias: Tensor, *_rest: Any) -> Tensor:
    """Repeats the own edge rows in place of the neighbours'."""
    return functional.conv2d(functional.pad(x, (0, 0, 1, 1), mode="replicate"), weight, bias, padding=(0, 1))


def neighbours_swapped(x: Tensor, weight: Tensor, bias: Tensor, _stride: int, padding: int, group: Any) -> Tensor:
    """Takes the lower halo from above and the other way round."""
    extended = with_halo(x, padding, group)
    rows = [extended[:, :, -1:], x, extended[:, :, :1]]
    return functional.conv2d(torch.cat(rows, dim=2), weight, bias, padding=(0, padding))


def ring_of_strips(x: Tensor, weight: Tensor, bias: Tensor, *_rest: Any) -> Tensor:
    """Wraps around: the first strip borders on the last."""
    parts = all_gathered(x)
    rank = dist.get_rank()
    rows = [parts[rank - 1][:, :, -1:], x, parts[(rank + 1) % len(parts)][:, :, :1]]
    return functional.conv2d(torch.cat(rows, dim=2), weight, bias, padding=(0, 1))


def without_bias(x: Tensor, weight: Tensor, _bias: Tensor, *rest: Any) -> Tensor:
    """Forgets the bias."""
    return solution(x, weight, None, *rest)


def weight_in_float8(x: Tensor, weight: Tensor, bias: Tensor, *rest: Any) -> Tensor:
    """Rounds the weights to 8 bits (e4m3, one scale)."""
    scale = weight.abs().max().float() / 448
    rounded = (weight.float() / scale).to(torch.float8_e4m3fn).float() * scale
    return solution(x, rounded.to(x.dtype), bias, *rest)


def three_rows_at_least(x: Tensor, *rest: Any) -> Tensor:
    """Without neighbours where a strip has no inner row."""
    return solution(x, *rest) if x.shape[2] > 2 else halo_by_replication(x, *rest)


HONEST = {
    "float32": in_float32,
    "whole_image": whole_image,
    "edges_last": edges_last,
    "as_product": as_product,
}
MUTANTS = {
    "halo_by_replication": halo_by_replication,
    "neighbours_swapped": neighbours_swapped,
    "ring_of_strips": ring_of_strips,
    "without_bias": without_bias,
    "weight_in_float8": weight_in_float8,
}
NARROW = {"few_rows": three_rows_at_least}
