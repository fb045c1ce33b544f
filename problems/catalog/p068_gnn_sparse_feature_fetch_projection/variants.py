"""Programs that must pass and programs that must fail."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p068_gnn_sparse_feature_fetch_projection.reference import solution
from problems.families.rank_parts import all_gathered


def _from_table(shard: Tensor, ids: Tensor) -> Tensor:
    return torch.cat(all_gathered(shard))[ids]


def table_gathered(shard: Tensor, ids: Tensor, matrix: Tensor, nodes: int, group: Any) -> Tensor:
    """Gathers the whole table."""
    del nodes, group
    return _from_table(shard, ids) @ matrix


def in_float32(shard: Tensor, ids: Tensor, matrix: Tensor, nodes: int, group: Any) -> Tensor:
    """Rows and products in float32, rounded once."""
    return solution(shard.float(), ids, matrix.float(), nodes, group).to(shard.dtype)


def distinct_rows(shard: Tensor, ids: Tensor, matrix: Tensor, nodes: int, group: Any) -> Tensor:
    """Asks for every node once, and projects it once."""
    distinct, place = ids.unique(return_inverse=True)
    return solution(shard, distinct, matrix, nodes, group)[place]


def projected_at_the_owner(shard: Tensor, ids: Tensor, matrix: Tensor, nodes: int, group: Any) -> Tensor:
    """Every owner projects what it is asked for with the asking rank's matrix, and sends products."""
    del group
    rows = -(-nodes // dist.get_world_size())
    out = torch.zeros(len(ids), shard.shape[1], dtype=shard.dtype)
    for asking, (wanted, theirs) in enumerate(zip(all_gathered(ids), all_gathered(matrix), strict=True)):
        mine = wanted // rows == dist.get_rank()
        part = torch.zeros(len(ids), shard.shape[1], dtype=shard.dtype)
        part[mine] = shard[wanted[mine] - dist.get_rank() * rows] @ theirs
        dist.reduce(part, dst=asking)
        if asking == dist.get_rank():
            out = part
    return out


def own_rows_only(shard: Tensor, ids: Tensor, matrix: Tensor, nodes: int, group: Any) -> Tensor:
    """Takes every row from its own shard."""
    del nodes, group
    return shard[ids % len(shard)] @ matrix


def owners_by_remainder(shard: Tensor, ids: Tensor, matrix: Tensor, nodes: int, group: Any) -> Tensor:
    """Takes rank id mod W for the owner."""
    del nodes, group
    count = dist.get_world_size()
    return torch.cat(all_gathered(shard))[ids % count * len(shard) + ids // count] @ matrix


def shards_rounded_down(shard: Tensor, ids: Tensor, matrix: Tensor, nodes: int, group: Any) -> Tensor:
    """Divides the nodes by the ranks and rounds down."""
    del group
    count = dist.get_world_size()
    rows = nodes // count
    owner = (ids // rows).clamp(max=count - 1)
    table = torch.cat(all_gathered(shard))
    return table[(owner * len(shard) + ids - owner * rows).clamp(max=len(table) - 1)] @ matrix


def order_not_restored(shard: Tensor, ids: Tensor, matrix: Tensor, nodes: int, group: Any) -> Tensor:
    """Leaves rows sorted by owner."""
    return solution(shard, ids[(ids // len(shard)).argsort(stable=True)], matrix, nodes, group)


def owners_matrix(shard: Tensor, ids: Tensor, matrix: Tensor, nodes: int, group: Any) -> Tensor:
    """Projects whole shards with the owners' matrices."""
    del nodes, group
    return _from_table(shard @ matrix, ids)


def matrix_transposed(shard: Tensor, ids: Tensor, matrix: Tensor, nodes: int, group: Any) -> Tensor:
    """Multiplies by the transposed matrix."""
    return solution(shard, ids, matrix.T.contiguous(), nodes, group)


def unprojected(shard: Tensor, ids: Tensor, matrix: Tensor, nodes: int, group: Any) -> Tensor:
    """Fetches and does not multiply."""
    return solution(shard, ids, torch.eye(len(matrix), dtype=matrix.dtype), nodes, group)


def idle_owners_leave(shard: Tensor, ids: Tensor, matrix: Tensor, nodes: int, group: Any) -> Tensor:
    """Returns zeros on a rank that nobody asks for a row."""
    asked = torch.bincount(ids // len(shard), minlength=dist.get_world_size())
    dist.all_reduce(asked)
    out = solution(shard, ids, matrix, nodes, group)
    return out if asked[dist.get_rank()] else torch.zeros_like(out)


def first_rows_where_nothing_travels(shard: Tensor, ids: Tensor, matrix: Tensor, nodes: int, group: Any) -> Tensor:
    """Takes ids for rows of the own shard where no rank asks for another's."""
    travels = (ids // len(shard) != dist.get_rank()).any().int()
    dist.all_reduce(travels)
    return solution(shard, ids, matrix, nodes, group) if travels else shard[ids % (len(shard) - 1)] @ matrix


def even_split(shard: Tensor, ids: Tensor, matrix: Tensor, nodes: int, group: Any) -> Tensor:
    """Takes the nodes for dealt out so that ranks differ by one at the most."""
    del group
    count = dist.get_world_size()
    sizes = torch.tensor([len(part) for part in torch.arange(nodes).tensor_split(count)])
    starts = sizes.cumsum(0) - sizes
    owner = torch.bucketize(ids, starts[1:], right=True)
    return _from_table(shard, owner * len(shard) + ids - starts[owner]) @ matrix


def float16_under_one_scale(shard: Tensor, ids: Tensor, matrix: Tensor, nodes: int, group: Any) -> Tensor:
    """Rounds rows to float16 after a division by the largest element of the shard."""
    scale = shard.abs().max().float().clamp(min=1e-30)
    rounded = (shard.float() / scale).half().float() * scale
    return solution(rounded.to(shard.dtype), ids, matrix, nodes, group)


HONEST = {
    "table_gathered": table_gathered,
    "float32": in_float32,
    "distinct_rows": distinct_rows,
    "projected_at_the_owner": projected_at_the_owner,
}
MUTANTS = {
    "own_rows_only": own_rows_only,
    "owners_by_remainder": owners_by_remainder,
    "shards_rounded_down": shards_rounded_down,
    "order_not_restored": order_not_restored,
    "owners_matrix": owners_matrix,
    "matrix_transposed": matrix_transposed,
    "unprojected": unprojected,
}
NARROW = {
    "one_owner": idle_owners_leave,
    "own_rows": first_rows_where_nothing_travels,
    "fewer_nodes": even_split,
    "spread_rows": float16_under_one_scale,
}
