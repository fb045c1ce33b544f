"""How ranks join their process group. The same code in sandbox and trusted ranks."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore


@dataclass(frozen=True, kw_only=True)
class Membership:
    """What any rank is started with: its place among the ranks, the file where they meet, and descriptors."""

    rank: int
    world_size: int
    device: str
    gpus: int
    process_group: str
    store: str
    channel: int
    barrier: int
    clock: int
    busy_poll_s: float

    @property
    def own_device(self) -> torch.device:
        """The rank's device among `gpus` GPUs, which ranks share where there are fewer than ranks."""
        return torch.device("cuda", self.rank % self.gpus) if self.device == "cuda" else torch.device("cpu")


def join(own: Membership) -> None:
    """Form the default process group over the file `store` and test it with one all-reduce."""
    device, world_size = own.own_device, own.world_size
    if device.type == "cuda":
        torch.cuda.set_device(device)
        if own.gpus < world_size:
            # NCCL refuses two ranks of one host on one GPU.
            os.environ["NCCL_HOSTID"] = f"rank-{own.rank}"
    dist.init_process_group(
        own.process_group,
        store=FileStore(own.store, world_size),
        rank=own.rank,
        world_size=world_size,
        device_id=device if device.type == "cuda" else None,
    )
    token = torch.ones(1, device=device)
    dist.all_reduce(token)
    if int(token.item()) != world_size:
        raise RuntimeError(f"the first all-reduce of {world_size} ranks gave {token.item()}")


def group_maker(world_size: int) -> Callable[[tuple[int, ...]], Any]:
    """A function that gives the process group of some ranks; each is made once, by every rank in the same order."""
    made: dict[tuple[int, ...], Any] = {}

    def group_of(ranks: tuple[int, ...]) -> Any:
        if len(ranks) == world_size:
            return dist.group.WORLD
        if ranks not in made:
            made[ranks] = dist.new_group(list(ranks))
        return made[ranks]

    return group_of
