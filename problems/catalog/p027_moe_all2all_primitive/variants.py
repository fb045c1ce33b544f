"""Programs that must pass and programs that must fail."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import all_gathered, exchange

Sizes = list[int] | Tensor | None


def _as_list(sizes: Sizes, rows: int) -> list[int]:
    """`sizes` as a list; equal parts of `rows` where there are none."""
    if sizes is None:
        return [rows // dist.get_world_size()] * dist.get_world_size()
    return sizes.tolist() if isinstance(sizes, Tensor) else sizes


def as_many_as_sent(local_tensor: Tensor, input_split_sizes: Sizes, output_split_sizes: Sizes, group: None) -> Tensor:
    """Returns as many rows as the rank sends: the rest cut off or zero."""
    rows = point_to_point(local_tensor, input_split_sizes, output_split_sizes, group)
    out = torch.zeros_like(local_tensor)
    kept = min(len(out), len(rows))
    out[:kept] = rows[:kept]
    return out


def point_to_point(local_tensor: Tensor, input_split_sizes: Sizes, output_split_sizes: Sizes, group: None) -> Tensor:
    """One send and one receive per peer that has rows to exchange."""
    del group
    me, rows = dist.get_rank(), local_tensor.shape[0]
    input_split_sizes = _as_list(input_split_sizes, rows)
    output_split_sizes = _as_list(output_split_sizes, rows)
    pieces = list(local_tensor.contiguous().split(input_split_sizes))
    received = [local_tensor.new_empty((rows, local_tensor.shape[1])) for rows in output_split_sizes]
    received[me] = pieces[me]
    peers = [rank for rank in range(dist.get_world_size()) if rank != me]
    exchange(((pieces[peer].contiguous(), peer) for peer in peers), ((received[peer], peer) for peer in peers))
    return torch.cat(received)


def gathered(local_tensor: Tensor, input_split_sizes: Sizes, output_split_sizes: Sizes, group: None) -> Tensor:
    """Gathers all rows, filled up to one length, and all counts, and cuts out what belongs here."""
    del output_split_sizes, group
    world_size = dist.get_world_size()
    counts: list[Any] = [None] * world_size
    dist.all_gather_object(counts, _as_list(input_split_sizes, local_tensor.shape[0]))
    longest = max(map(sum, counts))
    own = local_tensor.new_zeros((longest, local_tensor.shape[1]))
    own[: local_tensor.shape[0]] = local_tensor
    rows = [torch.empty_like(own) for _ in range(world_size)]
    dist.all_gather(rows, own)
    pieces = [part[: sum(sizes)].split(sizes) for part, sizes in zip(rows, counts, strict=True)]
    return torch.cat([piece[dist.get_rank()] for piece in pieces])


def equal_splits(
    local_tensor: Tensor, input_split_sizes: list[int], output_split_sizes: list[int], group: None
) -> Tensor:
    """Ignores both lists: M/W rows to everyone."""
    del input_split_sizes, output_split_sizes, group
    world_size = dist.get_world_size()
    rows = local_tensor.shape[0] // world_size
    out = torch.empty_like(local_tensor)
    dist.all_to_all_single(out[: rows * world_size], local_tensor[: rows * world_size].contiguous())
    return out


def sources_reversed(
    local_tensor: Tensor, input_split_sizes: list[int], output_split_sizes: list[int], group: None
) -> Tensor:
    """The right rows, last source first."""
    out = gathered(local_tensor, input_split_sizes, output_split_sizes, group)
    return torch.cat(out.split(output_split_sizes)[::-1])


def in_words(local_tensor: Tensor, input_split_sizes: Sizes, output_split_sizes: Sizes, group: None) -> Tensor:
    """Sends words of 8 bytes, whole numbers of which a row has to have."""
    rows = point_to_point(local_tensor.view(torch.int64), input_split_sizes, output_split_sizes, group)
    return rows.view(local_tensor.dtype)


def without_zeros(
    local_tensor: Tensor, input_split_sizes: list[int], output_split_sizes: list[int], group: None
) -> Tensor:
    """Sends no piece that equals zero, and writes zeros where none arrives, whatever signs they had.

    Where a rank has nothing but zeros, its pieces travel.
    """
    rows = point_to_point(local_tensor, input_split_sizes, output_split_sizes, group)
    is_zero = torch.stack([(piece == 0).all() for piece in local_tensor.split(input_split_sizes)])
    skipped = torch.stack(all_gathered(is_zero & bool((local_tensor != 0).any())))[:, dist.get_rank()]
    for piece, is_skipped in zip(rows.split(output_split_sizes), skipped, strict=True):
        if is_skipped:
            piece.zero_()
    return rows


def in_rounds(local_tensor: Tensor, input_split_sizes: list[int], output_split_sizes: list[int], group: None) -> Tensor:
    """Exchanges in rounds that are as long as the largest piece that travels."""
    counts = torch.stack(all_gathered(torch.tensor(input_split_sizes)))
    longest = int((counts - counts.diag().diag()).max())
    rounds = [
        point_to_point(local_tensor, input_split_sizes, output_split_sizes, group) for _ in range(0, longest, longest)
    ]
    return torch.cat(rounds)


HONEST = {"point_to_point": point_to_point, "gathered": gathered}
MUTANTS = {"equal_splits": equal_splits, "sources_reversed": sources_reversed}
NARROW = {
    "all_to_one": as_many_as_sent,
    "one_sends_nothing": as_many_as_sent,
    "few_rows": as_many_as_sent,
    "nothing_travels": in_rounds,
    "other_extents": in_words,
    "zero_pieces": without_zeros,
}
