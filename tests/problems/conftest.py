"""Rank pools that every problem's tests share: started once per world size."""

from collections.abc import Iterator

import pytest

from problems.harness.ranks import Ranks


class Pools:
    """One running pool per world size, started when first asked for."""

    def __init__(self) -> None:
        self._running: dict[int, Ranks] = {}

    def of(self, world_size: int) -> Ranks:
        if world_size not in self._running:
            self._running[world_size] = Ranks(world_size)
        return self._running[world_size]

    def close(self) -> None:
        for ranks in self._running.values():
            ranks.close()


@pytest.fixture(scope="session")
def pools() -> Iterator[Pools]:
    pools = Pools()
    yield pools
    pools.close()
