"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import all_gathered


def _table(local_shard: Tensor) -> Tensor:
    """The whole table, on every rank."""
    return torch.cat(all_gathered(local_shard))


def _by_owner(indices: Tensor, local_shard: Tensor) -> Tensor:
    """The row numbers in the order of the answer."""
    return indices[(indices // len(local_shard)).argsort(stable=True)]


def table_gathered(indices: Tensor, local_shard: Tensor) -> Tensor:
    """Gathers the whole table and looks everything up locally."""
    return _table(local_shard)[_by_owner(indices, local_shard)]


def every_list_everywhere(indices: Tensor, local_shard: Tensor) -> Tensor:
    """Every owner sees all lists, fills in its rows, and the sums of what was filled in are the answers."""
    rows, rank = len(local_shard), dist.get_rank()
    lists = [torch.empty_like(indices) for _ in range(dist.get_world_size())]
    dist.all_gather(lists, _by_owner(indices, local_shard))
    asked = torch.stack(lists)
    is_own = (asked // rows == rank)[..., None]
    found = torch.where(is_own, local_shard[(asked - rank * rows).clamp(0, rows - 1)], 0.0)
    out = torch.empty_like(local_shard)
    dist.reduce_scatter_tensor(out, found.flatten(0, 1))
    return out


def input_order(indices: Tensor, local_shard: Tensor) -> Tensor:
    """The rows in the order of the list, not grouped by owner."""
    return _table(local_shard)[indices]


def sorted_by_row(indices: Tensor, local_shard: Tensor) -> Tensor:
    """Sorted by row number within an owner too."""
    return _table(local_shard)[indices.sort().values]


def owners_reversed(indices: Tensor, local_shard: Tensor) -> Tensor:
    """The last owner's group first."""
    owner = indices // len(local_shard)
    return _table(local_shard)[indices[(-owner).argsort(stable=True)]]


def last_owner_left_out(indices: Tensor, local_shard: Tensor) -> Tensor:
    """Zeros in place of what the last rank owns."""
    table = _table(local_shard)
    table[-len(local_shard) :] = 0
    return table[_by_owner(indices, local_shard)]


def local_rows_only(indices: Tensor, local_shard: Tensor) -> Tensor:
    """Takes every row number as one of the own shard."""
    return local_shard[_by_owner(indices, local_shard) % len(local_shard)]


def idle_owners_leave(indices: Tensor, local_shard: Tensor) -> Tensor:
    """Returns zeros on a rank that nobody asks for a row."""
    asked = torch.bincount(indices // len(local_shard), minlength=dist.get_world_size())
    dist.all_reduce(asked)
    out = table_gathered(indices, local_shard)
    return out if asked[dist.get_rank()] else torch.zeros_like(out)


def at_most_64_copies(indices: Tensor, local_shard: Tensor) -> Tensor:
    """Answers a rank no more than 64 times with the same row, and with zeros from then on."""
    asked = _by_owner(indices, local_shard)
    copies = (asked[:, None] == asked).tril().sum(dim=1)
    return _table(local_shard)[asked].where(copies[:, None] <= 64, 0)


def counts_what_travels(indices: Tensor, local_shard: Tensor) -> Tensor:
    """Sizes a buffer by the largest row number that any rank asks of another, which there has to be."""
    own = indices // len(local_shard) == dist.get_rank()
    largest = torch.where(own, -1, indices).max()
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    table = _table(local_shard)[: int(largest) + 1]
    return table_gathered(indices, local_shard) if len(table) else torch.zeros_like(local_shard)


def owner_by_reciprocal(indices: Tensor, local_shard: Tensor) -> Tensor:
    """Finds owners by a product with 1/M in float32, which is too small where that is rounded down."""
    owner = (indices.float() * torch.tensor(1.0 / len(local_shard))).long()
    return _table(local_shard)[indices[owner.argsort(stable=True)]]


def in_order_by_its_ends(indices: Tensor, local_shard: Tensor) -> Tensor:
    """Takes a list whose first and last six row numbers ascend for sorted."""
    is_sorted = bool((indices[:6].diff() >= 0).all() and (indices[-6:].diff() >= 0).all())
    return sorted_by_row(indices, local_shard) if is_sorted else table_gathered(indices, local_shard)


HONEST = {"table_gathered": table_gathered, "every_list_everywhere": every_list_everywhere}
MUTANTS = {
    "input_order": input_order,
    "sorted_by_row": sorted_by_row,
    "owners_reversed": owners_reversed,
    "last_owner_left_out": last_owner_left_out,
    "local_rows_only": local_rows_only,
}
NARROW = {
    "one_owner": idle_owners_leave,
    "one_row": at_most_64_copies,
    "own_rows": counts_what_travels,
    "shard_edges": owner_by_reciprocal,
    "nearly_sorted": in_order_by_its_ends,
}
