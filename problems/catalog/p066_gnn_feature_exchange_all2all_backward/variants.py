"""Programs that must pass and programs that must fail."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import exchange
from problems.families.seed_exchange import runs_by_ends


def _returned(grad_output: Tensor, counts_sent: list[int], counts_received: list[int]) -> Tensor:
    """The gradients that come back, in relative order; one message per peer that has any."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    pieces = grad_output.split(counts_sent)
    received = [grad_output.new_empty((rows, grad_output.shape[1])) for rows in counts_received]
    received[0].copy_(pieces[0])
    others = [(rank + i) % world_size for i in range(1, world_size)]
    leaving = [piece.contiguous() for piece in pieces[1:]]
    exchange(zip(leaving, others, strict=True), zip(received[1:], others, strict=True))
    return torch.cat(received)


def _sums(rows: Tensor, ids: Tensor, seed_size: int) -> Tensor:
    return rows.new_zeros((seed_size, rows.shape[1])).index_add_(0, ids, rows)


def _summed_by(sums: Callable[[Tensor, Tensor, int], Tensor]) -> Callable[..., Tensor]:
    """The program that brings the gradients back point to point and adds them up by `sums`."""

    def program(
        grad_output: Tensor, ids: Tensor, seed_size: int, sent: list[int], received: list[int], _: None
    ) -> Tensor:
        return sums(_returned(grad_output, sent, received), ids, seed_size)

    return program


def _in_float64(rows: Tensor, ids: Tensor, seed_size: int) -> Tensor:
    return _sums(rows.double(), ids, seed_size).float()


def _backwards(rows: Tensor, ids: Tensor, seed_size: int) -> Tensor:
    """Last row first."""
    return _sums(rows.flip(0), ids.flip(0), seed_size)


def _one_hot_product(rows: Tensor, ids: Tensor, seed_size: int) -> Tensor:
    """As the product with a sparse matrix of zeros and ones."""
    places = torch.stack([ids, torch.arange(len(ids))])
    return torch.sparse_coo_tensor(places, torch.ones(len(ids)), (seed_size, len(ids)), check_invariants=False) @ rows


def _last_copy_wins(rows: Tensor, ids: Tensor, seed_size: int) -> Tensor:
    """Writes where it should add."""
    out = rows.new_zeros((seed_size, rows.shape[1]))
    out[ids] = rows
    return out


def _mean_of_copies(rows: Tensor, ids: Tensor, seed_size: int) -> Tensor:
    """Divides by the number of copies."""
    return _in_float64(rows, ids, seed_size) / torch.bincount(ids, minlength=seed_size).clamp(min=1)[:, None]


def sources_in_rank_order(
    grad_output: Tensor, ids: Tensor, seed_size: int, sent: list[int], received: list[int], _: None
) -> Tensor:
    """Takes what came back as if rank 0's rows stood first."""
    pieces = _returned(grad_output, sent, received).split(received)
    start = dist.get_world_size() - dist.get_rank()
    return _sums(torch.cat(pieces[start:] + pieces[:start]), ids, seed_size)


def payload_in_bfloat16(
    grad_output: Tensor, ids: Tensor, seed_size: int, sent: list[int], received: list[int], _: None
) -> Tensor:
    """Half the bytes on the wire."""
    return _sums(_returned(grad_output.bfloat16(), sent, received).float(), ids, seed_size)


def not_summed_where_nothing_travels(
    grad_output: Tensor, ids: Tensor, seed_size: int, sent: list[int], received: list[int], _: None
) -> Tensor:
    """Writes where it should add if all rows stay."""
    sums = _sums if any(sent[1:]) or any(received[1:]) else _last_copy_wins
    return sums(_returned(grad_output, sent, received), ids, seed_size)


def own_row_at_least(
    grad_output: Tensor, ids: Tensor, seed_size: int, sent: list[int], received: list[int], _: None
) -> Tensor:
    """Takes the first row from its own gradients, whether one stays or not."""
    rows = _returned(grad_output, sent, received)
    rows[0] = grad_output[0]
    return _sums(rows, ids, seed_size)


def _at_most_64_copies(rows: Tensor, ids: Tensor, seed_size: int) -> Tensor:
    """Adds no more than 64 rows to a seed."""
    copies = (ids[:, None] == ids).tril().sum(dim=1)
    return _sums(rows.where(copies[:, None] <= 64, 0), ids, seed_size)


def _without_tiny(rows: Tensor, ids: Tensor, seed_size: int) -> Tensor:
    """Counts what is below 2^-18 as zero."""
    return _sums(rows.where(rows.abs() >= 2**-18, 0), ids, seed_size)


def _saturated(rows: Tensor, ids: Tensor, seed_size: int) -> Tensor:
    """Counts no element for more than 2^16."""
    return _sums(rows.clamp(-(2**16), 2**16), ids, seed_size)


def _differences_of_one_prefix_sum(rows: Tensor, ids: Tensor, seed_size: int) -> Tensor:
    """Sorts rows by seed, adds all of them up in one go, and subtracts the sum before a seed's rows from that after."""
    ids, order = ids.sort()
    until = torch.nn.functional.pad(rows[order].cumsum(0), (0, 0, 1, 0))
    seeds = torch.arange(seed_size)
    return until[torch.searchsorted(ids, seeds, right=True)] - until[torch.searchsorted(ids, seeds)]


HONEST = {
    "in_float64": _summed_by(_in_float64),
    "backwards": _summed_by(_backwards),
    "one_hot_product": _summed_by(_one_hot_product),
}
MUTANTS = {
    "last_copy_wins": _summed_by(_last_copy_wins),
    "mean_of_copies": _summed_by(_mean_of_copies),
    "sources_in_rank_order": sources_in_rank_order,
    "payload_in_bfloat16": payload_in_bfloat16,
}


def half_as_many_seeds(
    grad_output: Tensor, ids: Tensor, _seed_size: int, sent: list[int], received: list[int], _: None
) -> Tensor:
    """Takes it that there are half as many seeds as rows."""
    return _sums(_returned(grad_output, sent, received), ids, len(ids) // 2)


def runs_by_their_ends(
    grad_output: Tensor, ids: Tensor, seed_size: int, sent: list[int], received: list[int], _: None
) -> Tensor:
    """Takes a piece for neighbours in a row where its ends are as theirs and nothing in it is beyond them."""
    return _sums(_returned(grad_output, sent, received), runs_by_ends(ids, received), seed_size)


NARROW = {
    "nothing_travels": not_summed_where_nothing_travels,
    "all_to_the_next_rank": own_row_at_least,
    "seven_seeds": half_as_many_seeds,
    "common_part": _summed_by(_differences_of_one_prefix_sum),
    "one_seed": _summed_by(_at_most_64_copies),
    "nearly_runs": runs_by_their_ends,
    "tiny_values": _summed_by(_without_tiny),
    "huge_values": _summed_by(_saturated),
}
