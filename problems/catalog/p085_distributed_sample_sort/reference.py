"""The baseline: local sort, splitters from samples, all-to-all of buckets, merge, all-to-all to balanced shards."""

import torch
import torch.distributed as dist
from torch import Tensor

_SAMPLES = 64
"""Samples per rank and bucket: buckets then differ by a few per cent."""


def solution(local_shard: Tensor, group: "dist.ProcessGroup | None" = None) -> Tensor:
    """The rank's balanced share of all ranks' values in ascending order."""
    world_size = dist.get_world_size(group)
    values = local_shard.sort().values
    if world_size == 1:
        return values
    buckets = values.split(_bucket_sizes(values, world_size, group))
    merged = _exchange(buckets, group).sort().values

    counts = _gather(torch.tensor([merged.numel()], device=values.device), world_size, group).tolist()
    total, first = sum(counts), sum(counts[: dist.get_rank(group)])
    ends = [(rank + 1) * (total // world_size) + min(rank + 1, total % world_size) for rank in range(world_size)]
    cuts = [min(max(end - first, 0), merged.numel()) for end in ends]
    return _exchange(merged.tensor_split(cuts[:-1]), group)


def _bucket_sizes(values: Tensor, world_size: int, group: "dist.ProcessGroup | None") -> list[int]:
    """How many of the sorted `values` belong to each rank, by splitters that all ranks find from the same samples.

    Ranks without values send infinity, which sorts last and is left out.
    """
    count = _SAMPLES * world_size
    samples = values.new_full((count,), torch.inf)
    if values.numel():
        places = torch.linspace(0, values.numel() - 1, count, dtype=torch.float64, device=values.device)
        samples = values[places.long()]
    shares = _gather(torch.tensor([values.numel()], device=values.device), world_size, group)
    weights = (shares.double() / count).repeat_interleave(count)
    gathered, order = _gather(samples, world_size, group).sort()
    # Every sample stands for its rank's number of values divided by the number of samples.
    reached = weights[order].cumsum(0)
    wanted = shares.sum() * torch.arange(1, world_size, device=values.device) / world_size
    splitters = gathered[torch.searchsorted(reached, wanted.double()).clamp(max=len(gathered) - 1)]
    cuts = torch.searchsorted(values, splitters, right=True).tolist()
    return [end - start for start, end in zip([0, *cuts], [*cuts, values.numel()], strict=True)]


def _gather(own: Tensor, world_size: int, group: "dist.ProcessGroup | None") -> Tensor:
    """Every rank's `own`, one after the other."""
    everything = own.new_empty(world_size * own.numel())
    dist.all_gather_into_tensor(everything, own.contiguous(), group=group)
    return everything


def _exchange(parts: "tuple[Tensor, ...] | list[Tensor]", group: "dist.ProcessGroup | None") -> Tensor:
    """Part j to rank j; what arrives, in rank order."""
    sends = [part.numel() for part in parts]
    counts = torch.tensor(sends, device=parts[0].device)
    arriving = torch.empty_like(counts)
    dist.all_to_all_single(arriving, counts, group=group)
    receives = arriving.tolist()
    received = parts[0].new_empty(sum(receives))
    dist.all_to_all_single(received, torch.cat(list(parts)), receives, sends, group=group)
    return received
