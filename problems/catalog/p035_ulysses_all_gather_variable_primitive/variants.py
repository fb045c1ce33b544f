"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import all_gathered, exchange


def _shapes(x: Tensor) -> list[torch.Size]:
    """Every rank's shape."""
    own = torch.tensor(x.shape)
    return [torch.Size(shape.tolist()) for shape in all_gathered(own)]


def _shares(x: Tensor) -> list[Tensor]:
    """Every rank's share, by one broadcast each."""
    shares = []
    for rank, shape in enumerate(_shapes(x)):
        share = x.clone(memory_format=torch.contiguous_format) if rank == dist.get_rank() else x.new_empty(shape)
        dist.broadcast(share, src=rank)
        shares.append(share)
    return shares


def broadcasts(x: Tensor, gather_dim: int, group: None) -> Tensor:
    """One broadcast per rank with its own shape."""
    del group
    return torch.cat(_shares(x), dim=gather_dim)


def point_to_point(x: Tensor, gather_dim: int, group: None) -> Tensor:
    """Everyone sends to everyone, unpadded."""
    del group
    me = dist.get_rank()
    shares = [x if rank == me else x.new_empty(shape) for rank, shape in enumerate(_shapes(x))]
    peers = [rank for rank in range(len(shares)) if rank != me]
    exchange(((x.contiguous(), peer) for peer in peers), ((shares[peer], peer) for peer in peers))
    return torch.cat(shares, dim=gather_dim)


def own_length_for_all(x: Tensor, gather_dim: int, group: None) -> Tensor:
    """Takes it for granted that all shares are as long as the own one: the rest is cut off or zero."""
    del group
    length = x.shape[gather_dim]
    parts = []
    for share in _shares(x):
        part = torch.zeros_like(x)
        kept = min(length, share.shape[gather_dim])
        part.narrow(gather_dim, 0, kept).copy_(share.narrow(gather_dim, 0, kept))
        parts.append(part)
    return torch.cat(parts, dim=gather_dim)


def padding_kept(x: Tensor, gather_dim: int, group: None) -> Tensor:
    """The right length, but every share starts at a multiple of the mean length."""
    del group
    shares = _shares(x)
    out = torch.zeros_like(torch.cat(shares, dim=gather_dim))
    mean = out.shape[gather_dim] // len(shares)
    for rank, share in enumerate(shares):
        kept = min(share.shape[gather_dim], out.shape[gather_dim] - rank * mean)
        out.narrow(gather_dim, rank * mean, kept).copy_(share.narrow(gather_dim, 0, kept))
    return out


def shares_reversed(x: Tensor, gather_dim: int, group: None) -> Tensor:
    """Last rank first."""
    del group
    return torch.cat(_shares(x)[::-1], dim=gather_dim)


def last_share_empty(x: Tensor, gather_dim: int, group: None) -> Tensor:
    """Zeros where the last rank's share belongs."""
    del group
    *shares, last = _shares(x)
    return torch.cat([*shares, torch.zeros_like(last)], dim=gather_dim)


def room_for_half_more_than_the_mean(x: Tensor, gather_dim: int, group: None) -> Tensor:
    """Cuts off what a share has beyond one and a half times the mean length."""
    del group
    shares = _shares(x)
    out = torch.cat(shares, dim=gather_dim)
    most, start = 3 * out.shape[gather_dim] // (2 * len(shares)), 0
    for share in shares:
        length = share.shape[gather_dim]
        out.narrow(gather_dim, start, length).narrow(gather_dim, min(length, most), max(0, length - most)).zero_()
        start += length
    return out


def one_row_at_least(x: Tensor, gather_dim: int, group: None) -> Tensor:
    """Counts an empty share as one of length 1."""
    del group
    return torch.cat(
        [share if share.numel() else share.new_zeros(_one_long(share, gather_dim)) for share in _shares(x)],
        dim=gather_dim,
    )


def _one_long(share: Tensor, gather_dim: int) -> list[int]:
    return [1 if dim == gather_dim else length for dim, length in enumerate(share.shape)]


def along_columns(x: Tensor, gather_dim: int, group: None) -> Tensor:
    """Joins along dimension 1, as the calls at `tiny` do."""
    del group
    return torch.cat([share.movedim(gather_dim, 1) for share in _shares(x)], dim=1)


def taller_than_wide(x: Tensor, gather_dim: int, group: None) -> Tensor:
    """Fills a result only where it is longer than wide."""
    del group
    joined = torch.cat(_shares(x), dim=gather_dim)
    return joined if joined.shape[gather_dim] > joined.shape[1 - gather_dim] else torch.zeros_like(joined)


def in_words(x: Tensor, gather_dim: int, group: None) -> Tensor:
    """Sends words of 8 bytes, whole numbers of which a position has to have."""
    words = x.movedim(gather_dim, 0).contiguous().view(torch.int64)
    return broadcasts(words, 0, group).view(x.dtype).movedim(0, gather_dim).contiguous()


def room_for_64_more(x: Tensor, gather_dim: int, group: None) -> Tensor:
    """Cuts off what a share has beyond 64 positions more than the mean length."""
    del group
    shares = _shares(x)
    out = torch.cat(shares, dim=gather_dim)
    most, start = out.shape[gather_dim] // len(shares) + 64, 0
    for share in shares:
        length = share.shape[gather_dim]
        out.narrow(gather_dim, start, length).narrow(gather_dim, min(length, most), max(0, length - most)).zero_()
        start += length
    return out


def rows_up_to_1024(x: Tensor, gather_dim: int, group: None) -> Tensor:
    """Sends of each position what a block of threads holds, 1024 elements; the rest stays zero."""
    out = broadcasts(x, gather_dim, group)
    out.narrow(1 - gather_dim, min(1024, out.shape[1 - gather_dim]), max(0, out.shape[1 - gather_dim] - 1024)).zero_()
    return out


def padding_by_its_front(x: Tensor, gather_dim: int, group: None) -> Tensor:
    """Takes a position for padding where its first eight elements are zero."""
    rows = x.movedim(gather_dim, 0)
    is_padding = (rows[:, :8] == 0).all(dim=1, keepdim=True)
    return broadcasts(rows.masked_fill(is_padding, 0).movedim(0, gather_dim).contiguous(), gather_dim, group)


HONEST = {"broadcasts": broadcasts, "point_to_point": point_to_point}
MUTANTS = {
    "own_length_for_all": own_length_for_all,
    "padding_kept": padding_kept,
    "shares_reversed": shares_reversed,
    "last_share_empty": last_share_empty,
}
NARROW = {
    "one_rank_has_all": room_for_half_more_than_the_mean,
    "one_rank_is_empty": one_row_at_least,
    "short_shares": taller_than_wide,
    "other_dimension": along_columns,
    "other_width": in_words,
    "other_extents": room_for_64_more,
    "long_rows": rows_up_to_1024,
    "zeros_in_front": padding_by_its_front,
}
