"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor


def _returned(grad_output: Tensor, counts_sent: list[int], counts_received: list[int]) -> Tensor:
    """The gradients that come back, in relative order; one message per peer that has any."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    pieces = grad_output.split(counts_sent)
    received = [grad_output.new_empty((rows, grad_output.shape[1])) for rows in counts_received]
    received[0].copy_(pieces[0])
    others = range(1, world_size)
    works = [dist.isend(pieces[i].contiguous(), (rank + i) % world_size) for i in others if counts_sent[i]]
    works += [dist.irecv(received[i], (rank + i) % world_size) for i in others if counts_received[i]]
    for work in works:
        work.wait()
    return torch.cat(received)


def _sums(rows: Tensor, ids: Tensor, seed_size: int) -> Tensor:
    return rows.new_zeros((seed_size, rows.shape[1])).index_add_(0, ids, rows)


def in_float64(
    grad_output: Tensor,
    seed_inverse_ids: Tensor,
    seed_size: int,
    counts_sent: list[int],
    counts_received: list[int],
    group: None,
) -> Tensor:
    """Point to point, summed in float64."""
    del group
    rows = _returned(grad_output, counts_sent, counts_received).double()
    return _sums(rows, seed_inverse_ids, seed_size).float()


def backwards(
    grad_output: Tensor,
    seed_inverse_ids: Tensor,
    seed_size: int,
    counts_sent: list[int],
    counts_received: list[int],
    group: None,
) -> Tensor:
    """Sums in float32, last row first."""
    del group
    rows = _returned(grad_output, counts_sent, counts_received)
    return _sums(rows.flip(0), seed_inverse_ids.flip(0), seed_size)


def one_hot_product(
    grad_output: Tensor,
    seed_inverse_ids: Tensor,
    seed_size: int,
    counts_sent: list[int],
    counts_received: list[int],
    group: None,
) -> Tensor:
    """As the product with a matrix of zeros and ones."""
    del group
    rows = _returned(grad_output, counts_sent, counts_received)
    return torch.nn.functional.one_hot(seed_inverse_ids, seed_size).float().T @ rows


def last_copy_wins(
    grad_output: Tensor,
    seed_inverse_ids: Tensor,
    seed_size: int,
    counts_sent: list[int],
    counts_received: list[int],
    group: None,
) -> Tensor:
    """Writes where it should add."""
    del group
    rows = _returned(grad_output, counts_sent, counts_received)
    out = rows.new_zeros((seed_size, rows.shape[1]))
    out[seed_inverse_ids] = rows
    return out


def mean_of_copies(
    grad_output: Tensor,
    seed_inverse_ids: Tensor,
    seed_size: int,
    counts_sent: list[int],
    counts_received: list[int],
    group: None,
) -> Tensor:
    """Divides by the number of copies."""
    total = in_float64(grad_output, seed_inverse_ids, seed_size, counts_sent, counts_received, group)
    return total / torch.bincount(seed_inverse_ids, minlength=seed_size).clamp(min=1)[:, None]


def sources_in_rank_order(
    grad_output: Tensor,
    seed_inverse_ids: Tensor,
    seed_size: int,
    counts_sent: list[int],
    counts_received: list[int],
    group: None,
) -> Tensor:
    """Takes what came back as if rank 0's rows stood first."""
    del group
    pieces = _returned(grad_output, counts_sent, counts_received).split(counts_received)
    start = dist.get_world_size() - dist.get_rank()
    return _sums(torch.cat(pieces[start:] + pieces[:start]), seed_inverse_ids, seed_size)


def payload_in_bfloat16(
    grad_output: Tensor,
    seed_inverse_ids: Tensor,
    seed_size: int,
    counts_sent: list[int],
    counts_received: list[int],
    group: None,
) -> Tensor:
    """Half the bytes on the wire."""
    del group
    rows = _returned(grad_output.bfloat16(), counts_sent, counts_received).float()
    return _sums(rows, seed_inverse_ids, seed_size)


HONEST = {"in_float64": in_float64, "backwards": backwards, "one_hot_product": one_hot_product}
MUTANTS = {
    "last_copy_wins": last_copy_wins,
    "mean_of_copies": mean_of_copies,
    "sources_in_rank_order": sources_in_rank_order,
    "payload_in_bfloat16": payload_in_bfloat16,
}
