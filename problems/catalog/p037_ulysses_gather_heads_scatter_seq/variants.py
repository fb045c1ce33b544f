"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor, nn

from problems.families.rank_parts import all_gathered


def _padded(x: Tensor, seq_dim: int = 1) -> Tensor:
    """`x` of four dimensions with zero positions up to a multiple of W."""
    missing = -x.shape[seq_dim] % dist.get_world_size()
    return nn.functional.pad(x, (*[0, 0] * (x.dim() - 1 - seq_dim), 0, missing))


def _own_positions(x: Tensor, seq_dim: int = 1) -> Tensor:
    return x.chunk(dist.get_world_size(), dim=seq_dim)[dist.get_rank()]


def gathered(x: Tensor, seq_dim: int, head_dim: int, group: None) -> Tensor:
    """Gathers everything and keeps the own positions."""
    del group
    return _own_positions(_padded(torch.cat(all_gathered(x), dim=head_dim), seq_dim), seq_dim)


def gathered_to_each(x: Tensor, seq_dim: int, head_dim: int, group: None) -> Tensor:
    """One gather at each rank in turn."""
    del group
    world_size = dist.get_world_size()
    pieces = [piece.contiguous() for piece in _padded(x, seq_dim).chunk(world_size, dim=seq_dim)]
    received = [torch.empty_like(pieces[0]) for _ in range(world_size)]
    for rank, piece in enumerate(pieces):
        dist.gather(piece, received if rank == dist.get_rank() else None, dst=rank)
    return torch.cat(received, dim=head_dim)


def padded_in_front(x: Tensor, seq_dim: int, head_dim: int, group: None) -> Tensor:
    """The zeros stand before the first position, not behind the last."""
    del seq_dim, group
    whole = torch.cat(all_gathered(x), dim=head_dim)
    return _own_positions(nn.functional.pad(whole, (0, 0, 0, 0, -x.shape[1] % dist.get_world_size(), 0)))


def padded_with_the_last(x: Tensor, seq_dim: int, head_dim: int, group: None) -> Tensor:
    """The last position is repeated where zeros belong."""
    del group
    whole = torch.cat(all_gathered(x), dim=head_dim)
    missing = -x.shape[seq_dim] % dist.get_world_size()
    return _own_positions(torch.cat([whole, *[whole[:, -1:]] * missing], dim=seq_dim))


def heads_interleaved(x: Tensor, seq_dim: int, head_dim: int, group: None) -> Tensor:
    """Head h of every rank before head h + 1 of any."""
    del seq_dim, group
    return _own_positions(_padded(torch.stack(all_gathered(x), dim=head_dim + 1).flatten(2, 3)))


def along_second_and_third(x: Tensor, seq_dim: int, head_dim: int, group: None) -> Tensor:
    """Takes the second dimension for positions and the third for heads, as they are in timed calls."""
    del seq_dim, head_dim
    return gathered(x, 1, 2, group)


def one_position_at_least(x: Tensor, seq_dim: int, head_dim: int, group: None) -> Tensor:
    """Gives the last position to a rank that has none."""
    del group
    whole = torch.cat(all_gathered(x), dim=head_dim)
    length = whole.shape[seq_dim]
    shard = -(-length // dist.get_world_size())
    first = min(dist.get_rank() * shard, length - 1)
    own = whole.narrow(seq_dim, first, min(shard, length - first))
    return nn.functional.pad(own, (*[0, 0] * (x.dim() - 1 - seq_dim), 0, shard - own.shape[seq_dim]))


def padded_always(x: Tensor, seq_dim: int, head_dim: int, group: None) -> Tensor:
    """Fills the sequence up to the next multiple of W, even where its length is one."""
    world_size = dist.get_world_size()
    missing = world_size - x.shape[seq_dim] % world_size
    return gathered(nn.functional.pad(x, (*[0, 0] * (x.dim() - 1 - seq_dim), 0, missing)), seq_dim, head_dim, group)


def last_position_padded(x: Tensor, seq_dim: int, head_dim: int, group: None) -> Tensor:
    """Takes the last position for padding, as it is in calls at `tiny`."""
    out = gathered(x, seq_dim, head_dim, group)
    if dist.get_rank() == dist.get_world_size() - 1:
        out.narrow(seq_dim, out.shape[seq_dim] - 1, 1).zero_()
    return out


def owners_by_reciprocal(x: Tensor, seq_dim: int, head_dim: int, group: None) -> Tensor:
    """Finds a position's owner by a product with the reciprocal of T' in float32, which may be one too few."""
    whole = _padded(torch.cat(all_gathered(x), dim=head_dim), seq_dim)
    out = gathered(x, seq_dim, head_dim, group)
    length = out.shape[seq_dim]
    position = torch.arange(whole.shape[seq_dim])
    owner = (position.float() * torch.tensor(1 / length, dtype=torch.float32)).long()
    given = position[(owner == dist.get_rank()) & (position - owner * length < length)] - dist.get_rank() * length
    is_given = torch.zeros(length, dtype=torch.bool).index_fill_(0, given, value=True)
    return out * is_given.view([-1 if dim == seq_dim else 1 for dim in range(x.dim())])


HONEST = {"gathered": gathered, "gathered_to_each": gathered_to_each}
MUTANTS = {
    "padded_in_front": padded_in_front,
    "padded_with_the_last": padded_with_the_last,
    "heads_interleaved": heads_interleaved,
}
NARROW = {
    "heads_first": along_second_and_third,
    "positions_first": along_second_and_third,
    "equal_extents": along_second_and_third,
    "one_position": one_position_at_least,
    "other_extents": padded_always,
    "other_padding": last_position_padded,
    "awkward_lengths": owners_by_reciprocal,
}
