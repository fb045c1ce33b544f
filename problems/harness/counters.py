"""What a reference really computes and sends, by counters: the check of every cost model.

Operations are those that torch's counter finds in matrix products, convolutions and attention. Bytes are those of the
tensors that collectives are given, as ring algorithms carry them (a chain for rooted ones).
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from problems.harness.implementation import load
from problems.harness.ranks import Ranks
from problems.harness.trials import REFERENCE, Trial, call_of
from problems.harness.wiretap import Group, Tap, tapped
from problems.spec.schema import Cost, Problem, SizeName

_CALLS = 12
"""Calls that are counted where what is sent or computed depends on the data."""

Bytes = tuple[float, float]
"""Sent and received by one rank."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What one rank did in one call."""

    flops: int
    sent: float
    received: float


@dataclass(frozen=True, kw_only=True)
class Multiples:
    """Counts of the reference as multiples of the cost model; None where the model has no products to compare with."""

    flops: float | None
    wire: float


class _Meter:
    """Adds up what passes through the collectives of one rank."""

    def __init__(self) -> None:
        self.sent = 0.0
        self.received = 0.0

    def watch(self, name: str, arguments: dict[str, Any]) -> None:
        """Count one collective."""
        if name in _RULES:
            group: Group = arguments["group"]
            sent, received = _RULES[name](arguments, dist.get_world_size(group), dist.get_rank(group))
            self.sent += sent
            self.received += received


def _all_reduce(arguments: dict[str, Any], size: int, _rank: int) -> Bytes:
    moved = 2 * (size - 1) / size * arguments["tensor"].nbytes
    return moved, moved


def _all_gather_into_tensor(arguments: dict[str, Any], size: int, _rank: int) -> Bytes:
    moved = (size - 1) * arguments["input_tensor"].nbytes
    return moved, moved


def _all_gather(arguments: dict[str, Any], _size: int, _rank: int) -> Bytes:
    moved = sum(part.nbytes for part in arguments["tensor_list"]) - arguments["tensor"].nbytes
    return moved, moved


def _reduce_scatter_tensor(arguments: dict[str, Any], size: int, _rank: int) -> Bytes:
    moved = (size - 1) * arguments["output"].nbytes
    return moved, moved


def _all_to_all_single(arguments: dict[str, Any], size: int, rank: int) -> Bytes:
    return (
        _to_others(arguments["input"], arguments["input_split_sizes"], size, rank),
        _to_others(arguments["output"], arguments["output_split_sizes"], size, rank),
    )


def _to_others(tensor: torch.Tensor, splits: Sequence[int] | None, size: int, rank: int) -> float:
    """The bytes of a split tensor less the part for this rank itself."""
    if splits is None:
        return (size - 1) / size * tensor.nbytes
    return tensor.nbytes * (1 - splits[rank] / sum(splits)) if sum(splits) else 0.0


def _all_to_all(arguments: dict[str, Any], _size: int, rank: int) -> Bytes:
    sent, received = (
        sum(part.nbytes for place, part in enumerate(arguments[name]) if place != rank)
        for name in ("input_tensor_list", "output_tensor_list")
    )
    return sent, received


def _root(arguments: dict[str, Any], name: str) -> int:
    """The root's rank in the group: parameter `name`, or `group_NAME`."""
    if arguments[f"group_{name}"] is not None:
        return int(arguments[f"group_{name}"])
    group: Group = arguments["group"] or dist.group.WORLD
    assert group is not None
    return dist.get_group_rank(group, arguments[name])


def _broadcast(arguments: dict[str, Any], size: int, rank: int) -> Bytes:
    """Along a chain from the root: its last rank sends nothing."""
    place = (rank - _root(arguments, "src")) % size
    moved = arguments["tensor"].nbytes
    return moved * (place < size - 1), moved * (place > 0)


def _reduce(arguments: dict[str, Any], size: int, rank: int) -> Bytes:
    """Along a chain to the root: its first rank receives nothing."""
    place = (_root(arguments, "dst") - rank) % size
    moved = arguments["tensor"].nbytes
    return moved * (place > 0), moved * (place < size - 1)


def _scatter(arguments: dict[str, Any], size: int, rank: int) -> Bytes:
    moved = arguments["tensor"].nbytes
    return ((size - 1) * moved, 0.0) if rank == _root(arguments, "src") else (0.0, moved)


def _gather(arguments: dict[str, Any], size: int, rank: int) -> Bytes:
    moved = arguments["tensor"].nbytes
    return (0.0, (size - 1) * moved) if rank == _root(arguments, "dst") else (moved, 0.0)


def _send(arguments: dict[str, Any], _size: int, _rank: int) -> Bytes:
    return arguments["tensor"].nbytes, 0.0


def _receive(arguments: dict[str, Any], _size: int, _rank: int) -> Bytes:
    return 0.0, arguments["tensor"].nbytes


_RULES: dict[str, Callable[[dict[str, Any], int, int], Bytes]] = {
    "all_reduce": _all_reduce,
    "all_gather_into_tensor": _all_gather_into_tensor,
    "all_gather": _all_gather,
    "reduce_scatter_tensor": _reduce_scatter_tensor,
    "reduce_scatter": _reduce_scatter_tensor,
    "all_to_all_single": _all_to_all_single,
    "all_to_all": _all_to_all,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "scatter": _scatter,
    "gather": _gather,
    "send": _send,
    "isend": _send,
    "recv": _receive,
    "irecv": _receive,
}


def _attention(query: Any, key: Any, value: Any, *_rest: Any, **_named: Any) -> int:
    """Both products of attention on the CPU, by shapes; torch leaves them out. Masked pairs count as others do."""
    # Heads that share keys and values compute as if each had its own; torch 2.11 does not count them otherwise.
    heads = query[1]
    operations: int = sdpa_flop_count(query, (key[0], heads, *key[2:]), (value[0], heads, *value[2:]))
    return operations


def count(slug: str, key: bytes, index: int) -> Counts:
    """Run the reference of `slug` once at `tiny` on this rank and count; every rank of the world does so at once."""
    implementation = load(slug)
    trial = Trial(slug=slug, program=REFERENCE, key=key, index=index)
    call = call_of(trial, implementation, rank=dist.get_rank(), world_size=dist.get_world_size())
    arguments, meter = implementation.make_inputs(call), _Meter()
    on_cpu = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention}  # noqa: SLF001
    with tapped(Tap(watch=meter.watch)), FlopCounterMode(display=False, custom_mapping=on_cpu) as flops:
        implementation.run_with(implementation.solution, arguments)
    return Counts(flops=flops.get_total_flops(), sent=meter.sent, received=meter.received)


def multiples(ranks: Ranks, problem: Problem) -> Multiples:
    """What the reference does at `tiny` beside what the cost model says, over calls whose secrets never change.

    FLOPs are the mean over ranks, bytes those of the busiest rank of each call in its busier direction.
    """
    key = hashlib.sha256(problem.slug.encode()).digest()
    calls = [ranks.run(count, problem.slug, key, index) for index in range(2)]
    if calls[0] != calls[1]:
        calls += [ranks.run(count, problem.slug, key, index) for index in range(2, _CALLS)]
    model = problem.cost(problem.dims(SizeName.TINY, ranks.world_size), ranks.world_size, 2)
    flops = sum(rank.flops for call in calls for rank in call) / len(calls) / ranks.world_size
    products = _products(model) if flops or "matmul" in model.flops else 0.0
    busiest = sum(max(max(rank.sent, rank.received) for rank in call) for call in calls) / len(calls)
    return Multiples(flops=flops / products if products else None, wire=busiest / model.reference_wire_bytes)


def _products(model: Cost) -> float:
    """The modelled operations of the type that products run in: `matmul`, or a wider one where there is none."""
    kinds = [kind for kind in ("matmul", "fp32", "fp64") if kind in model.flops]
    return model.flops[kinds[0]] if kinds else 0.0
