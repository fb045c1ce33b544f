"""Does this rank's device compute, copy and communicate exactly? Uses small integers, so every sum is exact."""

from collections.abc import Iterator

import torch
import torch.distributed as dist

_SHORT, _LONG = 1 << 12, 1 << 20
_SQUARE = 256


def failures(*, device: torch.device, rank: int, world_size: int, is_full: bool) -> list[str]:
    """What was wrong, in words; all ranks must call it at the same time.

    The full form also copies a long pattern, compares a matrix product with the one in whole numbers, and sends to
    every peer.
    """
    found = [*_all_reduce(device, rank=rank, world_size=world_size), *_copy(device, _LONG if is_full else _SHORT)]
    if is_full:
        found += [*_product(device), *_exchange(device, rank=rank, world_size=world_size)]
    return found


def _pattern(length: int, seed: int, device: torch.device) -> torch.Tensor:
    return (torch.arange(length, dtype=torch.int64, device=device) * 2654435761 + seed) % 251


def _all_reduce(device: torch.device, *, rank: int, world_size: int) -> Iterator[str]:
    total = _pattern(_SHORT, rank, device).float()
    dist.all_reduce(total)
    right = sum(_pattern(_SHORT, peer, device) for peer in range(world_size))
    if not torch.equal(total.long(), torch.as_tensor(right)):
        yield "an all-reduce of integers is not exact"


def _copy(device: torch.device, length: int) -> Iterator[str]:
    pattern = _pattern(length, 7, torch.device("cpu"))
    if not torch.equal(pattern.to(device).clone().cpu(), pattern):
        yield f"a pattern of {length} numbers changed in a copy"


def _product(device: torch.device) -> Iterator[str]:
    # Values below 16 and 256 terms: every partial sum is below 2**24 and exact in float32.
    left = (_pattern(_SQUARE * _SQUARE, 1, torch.device("cpu")) % 16).reshape(_SQUARE, _SQUARE)
    right = (_pattern(_SQUARE * _SQUARE, 2, torch.device("cpu")) % 16).reshape(_SQUARE, _SQUARE)
    product = left.float().to(device) @ right.float().to(device)
    if not torch.equal(product.cpu().double(), left.double() @ right.double()):
        yield "a product of integer matrices is not exact"


def _exchange(device: torch.device, *, rank: int, world_size: int) -> Iterator[str]:
    gathered = [torch.empty(_SHORT, dtype=torch.int64, device=device) for _ in range(world_size)]
    dist.all_gather(gathered, _pattern(_SHORT, 100 + rank, device))
    wrong = [
        peer for peer in range(world_size) if not torch.equal(gathered[peer], _pattern(_SHORT, 100 + peer, device))
    ]
    if wrong:
        yield f"data from ranks {wrong} changed in transfer"
