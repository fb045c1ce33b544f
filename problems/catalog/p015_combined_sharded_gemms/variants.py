"""Programs that must pass and programs that must fail."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

from problems.families.rank_parts import all_gathered


def _own_rows(x_local: Tensor) -> Tensor:
    """The rank's rows of the whole input (M_local, H), without gathering the others."""
    received = torch.empty_like(x_local)
    dist.all_to_all_single(received, x_local.contiguous())
    return torch.cat(received.chunk(dist.get_world_size()), dim=1)


def _layers(rows: Tensor, W1: Tensor, W2: Tensor, bend: Callable[[Tensor], Tensor] = functional.silu) -> Tensor:
    """Both layers in float32, rounded once."""
    return (bend(rows.float() @ W1.float()) @ W2.float()).to(W1.dtype)


def in_float32(x_local: Tensor, W1: Tensor, W2: Tensor) -> Tensor:
    """Exchanges the rows that are needed and keeps float32 to the end."""
    return _layers(_own_rows(x_local), W1, W2)


def own_rows_only(x_local: Tensor, W1: Tensor, W2: Tensor) -> Tensor:
    """Exchanges the rows that are needed; layers in the run's dtype."""
    return functional.silu(_own_rows(x_local) @ W1) @ W2


def shard_by_shard(x_local: Tensor, W1: Tensor, W2: Tensor) -> Tensor:
    """Adds the first layer's products one shard after the other, the last rank's first, in float32."""
    world_size = dist.get_world_size()
    shards = [torch.empty_like(x_local) for _ in range(world_size)]
    dist.all_gather(shards, x_local.contiguous())
    pairs = list(zip(shards, W1.chunk(world_size), strict=True))
    first = W1.new_zeros((len(x_local) // world_size, W1.shape[1]), dtype=torch.float32)
    for shard, rows in reversed(pairs):
        first.addmm_(shard.chunk(world_size)[dist.get_rank()].float(), rows.float())
    return (functional.silu(first) @ W2.float()).to(W1.dtype)


def relu(x_local: Tensor, W1: Tensor, W2: Tensor) -> Tensor:
    """ReLU in place of SiLU."""
    return _layers(_own_rows(x_local), W1, W2, functional.relu)


def gelu(x_local: Tensor, W1: Tensor, W2: Tensor) -> Tensor:
    """GELU in place of SiLU."""
    return _layers(_own_rows(x_local), W1, W2, functional.gelu)


def own_shard_everywhere(x_local: Tensor, W1: Tensor, W2: Tensor) -> Tensor:
    """The own shard at every rank's index."""
    rows = x_local.chunk(dist.get_world_size())[dist.get_rank()]
    return _layers(torch.cat([rows] * dist.get_world_size(), dim=1), W1, W2)


def summed_over_ranks(x_local: Tensor, W1: Tensor, W2: Tensor) -> Tensor:
    """Every rank computes all rows and the sums are scattered, as if the weights were split."""
    shards = all_gathered(x_local)
    whole = _layers(torch.cat(shards, dim=1), W1, W2)
    out = whole.new_empty((len(whole) // dist.get_world_size(), whole.shape[1]))
    dist.reduce_scatter_tensor(out, whole)
    return out


def input_in_8_bits(x_local: Tensor, W1: Tensor, W2: Tensor) -> Tensor:
    """Sends the input as 8-bit floats (e4m3) with one scale per row, and nothing else in 8 bits."""
    scale = x_local.float().abs().amax(1, keepdim=True).clamp_min(1e-30) / 448
    squeezed = (x_local / scale).to(torch.float8_e4m3fn).float() * scale
    return in_float32(squeezed.to(x_local.dtype), W1, W2)


def activations_up_to_60(x_local: Tensor, W1: Tensor, W2: Tensor) -> Tensor:
    """Cuts off what exceeds 60 between the layers."""
    return _layers(_own_rows(x_local), W1, W2, lambda rows: functional.silu(rows).clamp(max=60.0))


def nothing_below_minus_6(x_local: Tensor, W1: Tensor, W2: Tensor) -> Tensor:
    """Takes SiLU for zero below -6."""
    return _layers(_own_rows(x_local), W1, W2, lambda rows: functional.silu(rows) * (rows >= -6))


HONEST = {"float32": in_float32, "own_rows_only": own_rows_only, "shard_by_shard": shard_by_shard}
MUTANTS = {
    "relu": relu,
    "gelu": gelu,
    "own_shard_everywhere": own_shard_everywhere,
    "summed_over_ranks": summed_over_ranks,
    "input_in_8_bits": input_in_8_bits,
}
NARROW = {"closed_gates": nothing_below_minus_6, "copied_values": activations_up_to_60}
