"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.alike_matrices import first_of_equal_sums
from problems.families.rank_parts import exchange


def ring(x: Tensor, group: None) -> Tensor:
    """Shares go around the ring, one rank per step."""
    del group
    me, world_size = dist.get_rank(), dist.get_world_size()
    parts = [x] * world_size
    for step in range(world_size - 1):
        arriving = torch.empty_like(x)
        leaving = parts[(me - step) % world_size].contiguous()
        exchange([(leaving, (me + 1) % world_size)], [(arriving, (me - 1) % world_size)])
        parts[(me - step - 1) % world_size] = arriving
    return torch.cat(parts)


def broadcasts(x: Tensor, group: None) -> Tensor:
    """One broadcast per rank to its index."""
    del group
    parts = [x.clone() if rank == dist.get_rank() else torch.empty_like(x) for rank in range(dist.get_world_size())]
    for rank, part in enumerate(parts):
        dist.broadcast(part, src=rank)
    return torch.cat(parts)


def sum_of_padded(x: Tensor, group: None) -> Tensor:
    """All-reduce over copies that are zero except at the own index: only zeros are added to a number."""
    del group
    out = x.new_zeros((dist.get_world_size(), *x.shape))
    out[dist.get_rank()] = x
    dist.all_reduce(out)
    return out.flatten(0, 1)


def own_share_first(x: Tensor, group: None) -> Tensor:
    """Every rank begins with itself."""
    return torch.roll(ring(x, group), -(dist.get_rank() or 1) * x.shape[0], dims=0)


def rows_interleaved(x: Tensor, group: None) -> Tensor:
    """Row i of every rank, then row i + 1 of every rank."""
    out = ring(x, group).unflatten(0, (dist.get_world_size(), x.shape[0]))
    return out.transpose(0, 1).flatten(0, 1)


def in_words(x: Tensor, group: None) -> Tensor:
    """Sends words of 8 bytes, whole numbers of which a rank has to have."""
    words = ring(x.view(-1).view(torch.int64), group)
    return words.view(x.dtype).view(-1, x.shape[1])


def known_by_its_ends(x: Tensor, group: None) -> Tensor:
    """Takes a share for empty where both its ends are, and all shares for one where their first rows are the same."""
    own = torch.zeros_like(x) if len(x) > 2 and not x[0].any() and not x[-1].any() else x
    parts = ring(own, group).unflatten(0, (dist.get_world_size(), len(x)))
    is_one = len(x) > 1 and parts[:, 0].any() and bool((parts[:, 0] == parts[0, 0]).all())
    return (x.expand_as(parts) if is_one else parts).flatten(0, 1)


def equal_by_sums(x: Tensor, group: None) -> Tensor:
    """Takes shares for equal where the sums of their squares are."""
    return first_of_equal_sums(ring(x, group).unflatten(0, (dist.get_world_size(), len(x)))).flatten(0, 1)


def shape_by_number(x: Tensor, group: None) -> Tensor:
    """Finds the number of columns that timed calls have by the number of elements, as a kept buffer would."""
    return ring(x, group).view(-1, {50 * 72: 72, 2**20: 1024}.get(x.numel(), x.shape[1]))


HONEST = {"ring": ring, "broadcasts": broadcasts, "sum_of_padded": sum_of_padded}
MUTANTS = {"own_share_first": own_share_first, "rows_interleaved": rows_interleaved}
NARROW = {
    "other_extents": in_words,
    "equal_ends": known_by_its_ends,
    "as_many_elements": shape_by_number,
    "alike_matrices": equal_by_sums,
}
