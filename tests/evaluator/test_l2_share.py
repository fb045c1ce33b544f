"""What a program sets aside of the L2 cache is there while it is timed and gone in between."""

from evaluator.arena.device_memory import L2Share

MIB = 1024**2


class Cache:
    """How much is set aside, and the share of a program that begins with nothing."""

    def __init__(self) -> None:
        self.aside = 0
        self.share = L2Share(read=lambda: self.aside, write=self.set)

    def set(self, size: int) -> None:
        self.aside = size

    def in_call(self, *, asks: int | None = None) -> int:
        """What is set aside when a call begins, in which the program may ask for another size."""
        self.share.give()
        found = self.aside
        if asks is not None:
            self.set(asks)
        self.share.take_back()
        return found


def test_a_share_that_a_call_reserves_is_there_in_the_next_ones():
    cache = Cache()
    assert [cache.in_call(asks=32 * MIB), cache.in_call(), cache.in_call()] == [0, 32 * MIB, 32 * MIB]
    assert cache.aside == 0


def test_a_share_reserved_outside_of_a_timed_call_is_there_in_all():
    """At the import of a program, say, which asks once and never again."""
    cache = Cache()
    cache.set(32 * MIB)
    assert [cache.in_call(), cache.in_call()] == [32 * MIB, 32 * MIB]
    cache.set(8 * MIB)
    assert [cache.in_call(), cache.in_call()] == [8 * MIB, 8 * MIB]
    assert cache.aside == 0


def test_what_a_program_gives_up_in_a_call_it_does_not_get_again():
    cache = Cache()
    assert [cache.in_call(asks=32 * MIB), cache.in_call(asks=0), cache.in_call()] == [0, 32 * MIB, 0]
