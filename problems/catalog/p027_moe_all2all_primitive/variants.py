"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor


def point_to_point(
    local_tensor: Tensor, input_split_sizes: list[int], output_split_sizes: list[int], group: None
) -> Tensor:
    """One send and one receive per peer that has rows to exchange."""
    del group
    me = dist.get_rank()
    pieces = list(local_tensor.contiguous().split(input_split_sizes))
    received = [local_tensor.new_empty((rows, local_tensor.shape[1])) for rows in output_split_sizes]
    received[me] = pieces[me]
    peers = [rank for rank in range(dist.get_world_size()) if rank != me]
    works = [dist.isend(pieces[peer].contiguous(), peer) for peer in peers if input_split_sizes[peer]]
    works += [dist.irecv(received[peer], peer) for peer in peers if output_split_sizes[peer]]
    for work in works:
        work.wait()
    return torch.cat(received)


def gathered(local_tensor: Tensor, input_split_sizes: list[int], output_split_sizes: list[int], group: None) -> Tensor:
    """Gathers all rows and all counts, and cuts out what belongs here."""
    del output_split_sizes, group
    world_size = dist.get_world_size()
    rows = [torch.empty_like(local_tensor) for _ in range(world_size)]
    dist.all_gather(rows, local_tensor.contiguous())
    counts = [[0] * world_size for _ in range(world_size)]
    dist.all_gather_object(counts, input_split_sizes)
    return torch.cat([part.split(sizes)[dist.get_rank()] for part, sizes in zip(rows, counts, strict=True)])


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


HONEST = {"point_to_point": point_to_point, "gathered": gathered}
MUTANTS = {"equal_splits": equal_splits, "sources_reversed": sources_reversed}
