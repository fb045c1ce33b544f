"""Programs that must pass and programs that must fail."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from problems.rank_parts import all_gathered


def whole(
    x: Tensor,
    W1: Tensor,
    W2: Tensor,
    W3: Tensor,
    n_tp: int,
    n_fsdp: int,
    *,
    width: torch.dtype = torch.float32,
    swaps: bool = False,
    is_gated: bool = True,
) -> Tensor:
    """Gathers every weight in the world and computes the whole MLP, part by part; the last arguments make it wrong."""
    every = [[shard.to(width) for shard in all_gathered(weight)] for weight in (W1, W2, W3)]
    x_wide, total = x.to(width), torch.zeros(x.shape)
    for part in range(n_tp):
        gate, up = (torch.cat(shards[part::n_tp]) for shards in every[:2])
        gate, up = (up, gate) if swaps else (gate, up)
        first = x_wide @ gate
        hidden = (nn.functional.silu(first) if is_gated else first) * (x_wide @ up)
        total += hidden @ torch.cat(every[2][part::n_tp], dim=1)
    return total.to(x.dtype)


def chunked(x: Tensor, *rest: Any) -> Tensor:
    """Two halves of the samples, one after the other, products rounded to the run's dtype."""
    return torch.cat([whole(half.contiguous(), *rest, width=x.dtype) for half in x.chunk(2)])


def groups_exchanged(x: Tensor, W1: Tensor, W2: Tensor, W3: Tensor, n_tp: int, n_fsdp: int) -> Tensor:
    """Blocks of ranks taken for FSDP groups and strides for tensor-parallel ones."""
    every = [[shard.float() for shard in all_gathered(weight)] for weight in (W1, W2, W3)]
    total = torch.zeros(x.shape)
    for part in range(n_tp):
        own = [shards[part * n_fsdp : (part + 1) * n_fsdp][::-1] for shards in every]
        hidden = nn.functional.silu(x.float() @ torch.cat(own[0])) * (x.float() @ torch.cat(own[1]))
        total += hidden @ torch.cat(own[2], dim=1)
    return total.to(x.dtype)


def half_the_hidden_units(x: Tensor, *rest: Any) -> Tensor:
    """Half of every part's hidden units, made up for by size."""
    W1, W2, W3, n_tp, n_fsdp = rest
    half = W3.clone()
    half[: half.shape[0] // 2] = 0
    return whole(x, W1, W2, half, n_tp, n_fsdp) * 2**0.5


HONEST = {"float32": whole, "chunked": chunked, "run_dtype": partial(whole, width=torch.bfloat16)}
MUTANTS = {
    "gate_and_up_exchanged": partial(whole, swaps=True),
    "without_silu": partial(whole, is_gated=False),
    "groups_exchanged": groups_exchanged,
    "half_the_hidden_units": half_the_hidden_units,
}
