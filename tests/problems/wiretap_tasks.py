"""Tasks for ranks that show what each tapped collective delivers."""

import torch
import torch.distributed as dist

from problems.harness.wiretap import Tap, tapped


def _exchange() -> dict[str, list[float]]:
    """What this rank holds after every kind of collective, the ranks sending 10, 20, 30, ... (and 11, 21, ...)."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    own = torch.tensor([10.0 * (rank + 1)])
    row = own + torch.arange(world_size)
    found = {}
    total = own.clone()
    dist.all_reduce(total)
    found["all_reduce"] = total
    parts = [torch.empty(1) for _ in range(world_size)]
    dist.all_gather(parts, own)
    found["all_gather"] = torch.cat(parts)
    swapped = torch.empty(world_size)
    dist.all_to_all_single(swapped, row)
    found["all_to_all_single"] = swapped
    shard = torch.empty(1)
    dist.reduce_scatter_tensor(shard, row)
    found["reduce_scatter_tensor"] = shard
    sent = own.clone()
    dist.broadcast(sent, src=0)
    found["broadcast"] = sent
    gathered = [torch.empty(1) for _ in range(world_size)] if rank == 0 else None
    dist.gather(own, gathered, dst=0)
    found["gather"] = torch.cat(gathered) if gathered else torch.empty(0)
    piece = torch.empty(1)
    dist.scatter(piece, list(row.split(1)) if rank == 0 else None, src=0)
    found["scatter"] = piece
    arrived = torch.empty(1)
    ring = [
        dist.P2POp(dist.isend, own, (rank + 1) % world_size),
        dist.P2POp(dist.irecv, arrived, (rank - 1) % world_size),
    ]
    for work in dist.batch_isend_irecv(ring):
        work.wait()
    found["ring"] = arrived
    return {name: tensor.tolist() for name, tensor in found.items()}


def untouched() -> dict[str, list[float]]:
    return _exchange()


def through_an_idle_tap() -> dict[str, list[float]]:
    with tapped(Tap()):
        return _exchange()


def without_communication() -> dict[str, list[float]]:
    with tapped(Tap(is_connected=False)):
        return _exchange()


def with_negated_payload() -> dict[str, list[float]]:
    with tapped(Tap(payload=lambda tensor, _group: -tensor)):
        return _exchange()


def with_shards_reversed() -> dict[str, list[float]]:
    with tapped(Tap(order=lambda count: range(count)[::-1])):
        return _exchange()
