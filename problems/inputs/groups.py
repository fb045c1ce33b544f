"""Process groups as data: which ranks belong together, before any process group exists."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Group:
    """A reference to the process group of `ranks`; the ranks that run a call turn it into a real group."""

    ranks: tuple[int, ...]


def world(world_size: int) -> Group:
    """The group of all ranks."""
    return Group(tuple(range(world_size)))


def contiguous(rank: int, *, world_size: int, group_size: int) -> Group:
    """The block of `group_size` neighbouring ranks that `rank` belongs to (the inner axis of a two-axis layout)."""
    _check(world_size, group_size)
    start = rank // group_size * group_size
    return Group(tuple(range(start, start + group_size)))


def strided(rank: int, *, world_size: int, group_size: int) -> Group:
    """The ranks that share `rank`'s position across blocks (the outer axis); `group_size` of them."""
    _check(world_size, group_size)
    stride = world_size // group_size
    return Group(tuple(range(rank % stride, world_size, stride)))


def _check(world_size: int, group_size: int) -> None:
    if world_size % group_size:
        raise ValueError(f"groups of {group_size} do not divide a world of {world_size}")
