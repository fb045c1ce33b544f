"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import all_gathered, exchange


def gathered(x: Tensor, scatter_dim: int, gather_dim: int, group: None) -> Tensor:
    """Gathers everything and cuts out what belongs here."""
    del group
    parts = all_gathered(x)
    mine = [part.chunk(len(parts), dim=scatter_dim)[dist.get_rank()] for part in parts]
    return torch.cat(mine, dim=gather_dim)


def point_to_point(x: Tensor, scatter_dim: int, gather_dim: int, group: None) -> Tensor:
    """One send and one receive per peer."""
    del group
    me, world_size = dist.get_rank(), dist.get_world_size()
    pieces = [piece.contiguous() for piece in x.chunk(world_size, dim=scatter_dim)]
    received = [pieces[me] if rank == me else torch.empty_like(pieces[me]) for rank in range(world_size)]
    peers = [rank for rank in range(world_size) if rank != me]
    exchange(((pieces[peer], peer) for peer in peers), ((received[peer], peer) for peer in peers))
    return torch.cat(received, dim=gather_dim)


def not_packed(x: Tensor, scatter_dim: int, gather_dim: int, group: None) -> Tensor:
    """Sends and receives raw memory as if cut and joined dimensions were the outermost ones."""
    del group
    out_shape = list(x.shape)
    out_shape[scatter_dim] //= dist.get_world_size()
    out_shape[gather_dim] *= dist.get_world_size()
    received = torch.empty_like(x)
    dist.all_to_all_single(received.view(-1), x.reshape(-1))
    return received.view(out_shape)


def own_piece_repeated(x: Tensor, scatter_dim: int, gather_dim: int, group: None) -> Tensor:
    """The piece that stays on the rank, at every index."""
    del group
    own = x.chunk(dist.get_world_size(), dim=scatter_dim)[dist.get_rank()]
    return torch.cat([own] * dist.get_world_size(), dim=gather_dim)


def sources_reversed(x: Tensor, scatter_dim: int, gather_dim: int, group: None) -> Tensor:
    """The right pieces, last source first."""
    out = gathered(x, scatter_dim, gather_dim, group)
    return torch.cat(out.chunk(dist.get_world_size(), dim=gather_dim)[::-1], dim=gather_dim)


def other_dimension_joined(x: Tensor, scatter_dim: int, gather_dim: int, group: None) -> Tensor:
    """Joins along the dimension that is not cut, whatever was asked for."""
    del gather_dim
    return gathered(x, scatter_dim, 1 - scatter_dim, group)


def in_words(x: Tensor, scatter_dim: int, gather_dim: int, group: None) -> Tensor:
    """Sends words of 4 bytes, whole numbers of which a row of a piece has to have."""
    pieces = [piece.contiguous().view(torch.int32) for piece in x.chunk(dist.get_world_size(), dim=scatter_dim)]
    words = gathered(torch.cat(pieces, dim=scatter_dim), scatter_dim, gather_dim, group)
    return words.view(x.dtype)


def rows_up_to_1024(x: Tensor, scatter_dim: int, gather_dim: int, group: None) -> Tensor:
    """Sends rows as a block of threads holds them, 1024 elements; the rest stays zero."""
    return gathered(torch.cat([x[:, :1024], x[:, 1024:] * 0], dim=1), scatter_dim, gather_dim, group)


def shape_by_number(x: Tensor, scatter_dim: int, gather_dim: int, group: None) -> Tensor:
    """Finds the shape that the result has in timed calls by the number of elements alone, as a kept plan would."""
    out, count = gathered(x, scatter_dim, gather_dim, group), dist.get_world_size()
    usual = {60 * count**2: [6 * count, 10 * count], 2**20: [1024, 1024]}.get(x.numel())
    if usual is None or scatter_dim == gather_dim:
        return out
    usual[scatter_dim] //= count
    usual[gather_dim] *= count
    return out.view(usual)


HONEST = {"gathered": gathered, "point_to_point": point_to_point}
MUTANTS = {
    "not_packed": not_packed,
    "own_piece_repeated": own_piece_repeated,
    "sources_reversed": sources_reversed,
}
NARROW = {
    "one_dimension": other_dimension_joined,
    "other_extents": in_words,
    "long_rows": rows_up_to_1024,
    "as_many_elements": shape_by_number,
}
