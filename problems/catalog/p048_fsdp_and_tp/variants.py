"""Programs that must pass and programs that must fail."""

from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from problems.families.rank_parts import all_gathered


def _joined(shards: list[Tensor], *, dim: int, most: int | None) -> Tensor:
    """All shards; with `most`, zeros in place of those beyond."""
    kept = len(shards) if most is None else most
    return torch.cat([*shards[:kept], *map(torch.zeros_like, shards[kept:])], dim=dim)


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
    most_parts: int | None = None,
    most_shards: int | None = None,
    hidden_in: torch.dtype | None = None,
    least_gate: float | None = None,
) -> Tensor:
    """Gathers every weight in the world and computes the whole MLP, part by part; the last arguments make it wrong."""
    every = [[shard.to(width) for shard in all_gathered(weight)] for weight in (W1, W2, W3)]
    x_wide, total = x.to(width), torch.zeros(x.shape)
    for part in range(min(n_tp, most_parts or n_tp)):
        gate, up = (_joined(shards[part::n_tp], dim=0, most=most_shards) for shards in every[:2])
        gate, up = (up, gate) if swaps else (gate, up)
        first = x_wide @ gate
        hidden = (nn.functional.silu(first) if is_gated else first) * (x_wide @ up)
        hidden = hidden if least_gate is None else hidden * (first >= least_gate)
        hidden = hidden.to(hidden_in or width).to(width)
        total += hidden @ _joined(every[2][part::n_tp], dim=1, most=most_shards)
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


def all_but_one_part(x: Tensor, *rest: Any) -> Tensor:
    """Sums no more parts than half of the ranks are."""
    return whole(x, *rest, most_parts=dist.get_world_size() // 2)


def divides_by_the_largest(x: Tensor, *rest: Any) -> Tensor:
    """Brings the samples to a largest magnitude of 1 and back."""
    largest = x.double().abs().max()
    return whole((x.double() / largest * largest).to(x.dtype), *rest)


def nothing_after_a_zero_sample(x: Tensor, *rest: Any) -> Tensor:
    """Returns nothing but zeros where the first sample is zero."""
    y = whole(x, *rest)
    return y if y[0].any() else torch.zeros_like(y)


HONEST = {"float32": whole, "chunked": chunked, "run_dtype": partial(whole, width=torch.bfloat16)}
MUTANTS = {
    "gate_and_up_exchanged": partial(whole, swaps=True),
    "without_silu": partial(whole, is_gated=False),
    "groups_exchanged": groups_exchanged,
    "half_the_hidden_units": half_the_hidden_units,
}
NARROW = {
    "tiny_values": partial(whole, hidden_in=torch.float16),
    "huge_values": partial(whole, hidden_in=torch.float16),
    "zero_values": divides_by_the_largest,
    "closed_gates": partial(whole, least_gate=-6),
    "other_samples": nothing_after_a_zero_sample,
    "sides_exchanged": partial(whole, most_parts=3),
    "one_tensor_parallel_group": all_but_one_part,
    "one_fsdp_group": partial(whole, most_shards=2),
}
