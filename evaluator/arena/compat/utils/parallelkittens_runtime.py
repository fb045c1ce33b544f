"""Tensors that all ranks can reach, made by an extension written with ParallelKittens.

The extension brings the class TKParallelTensor(shape, dtype, rank, world_size, multicast). It allocates on this rank
and exchanges handles with the others. Every rank makes the same calls in the same order.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

BARRIER_WORDS = 64

_made: dict[tuple[object, ...], Any] = {}


def create_parallel_tensor(
    ext: ModuleType, shape: Sequence[int], dtype: torch.dtype = torch.bfloat16, *, multicast: bool = True
) -> Any:
    """A new parallel tensor of `shape` and `dtype` on every rank.

    With `multicast` the extension also maps it for NVLink multicast; profiles whose name ends in -nomc refuse that.
    """
    return ext.TKParallelTensor(list(shape), dtype, dist.get_rank(), dist.get_world_size(), multicast)


def get_or_create_parallel_tensor(
    ext: ModuleType, shape: Sequence[int], dtype: torch.dtype = torch.bfloat16, *, multicast: bool = True
) -> Any:
    """The parallel tensor that was made for these same arguments, or a new one; it holds the last call's values."""
    key = (ext.__name__, tuple(shape), dtype, multicast)
    if key not in _made:
        _made[key] = create_parallel_tensor(ext, shape, dtype, multicast=multicast)
    return _made[key]


def get_or_create_barrier(ext: ModuleType, *, num_devices: int = 8) -> Any:
    """The zeroed flags of a device-side barrier over `num_devices` ranks: 64 int32, mapped for multicast.

    Raises:
        ValueError: the process group has another number of ranks.
    """
    if num_devices != dist.get_world_size():
        raise ValueError(f"num_devices is {num_devices}, but the process group has {dist.get_world_size()} ranks")
    key = (ext.__name__, "barrier", num_devices)
    if key not in _made:
        made = create_parallel_tensor(ext, (BARRIER_WORDS,), torch.int32)
        made.data_.zero_()
        torch.cuda.synchronize()
        dist.barrier()
        _made[key] = made
    return _made[key]
