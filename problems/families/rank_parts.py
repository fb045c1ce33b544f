"""The parts of all ranks, for variants: gathered on every rank, exchanged, and added in another order."""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor


def all_gathered(tensor: Tensor, group: dist.ProcessGroup | None = None) -> list[Tensor]:
    """Every rank's `tensor`, in the order of `group` (None: the world); all have one shape and dtype."""
    own = tensor.contiguous()
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, own, group=group)
    return parts


Messages = Iterable[tuple[Tensor, int]]


def exchange(sent: Messages, received: Messages) -> None:
    """Send tensors to ranks and fill those that ranks send, each a pair of the two; tensors are contiguous.

    All go in one batch: NCCL takes messages between two ranks one after the other, so that two ranks that both send
    first would wait for each other. Messages to one rank arrive in their order. What is empty is not sent.
    """
    messages = [dist.P2POp(dist.isend, tensor, peer) for tensor, peer in sent if tensor.numel()]
    messages += [dist.P2POp(dist.irecv, tensor, peer) for tensor, peer in received if tensor.numel()]
    for work in dist.batch_isend_irecv(messages) if messages else ():
        work.wait()


def added_backwards(parts: list[Tensor]) -> Tensor:
    """The sum of `parts` in their own dtype, rounded at every step, last one first."""
    total = parts[-1]
    for part in parts[-2::-1]:
        total = total + part
    return total
