"""Which world sizes a problem runs at: rules that a spec gives as `refuses_world_size`.

A rule says why a world size is refused, in words that go on from "problem NAME ...", and None where it is accepted.
"""

from collections.abc import Callable


def any_world_size(world_size: int) -> str | None:
    """Accept every world size of at least two ranks."""
    return None if world_size >= 2 else f"needs at least 2 ranks, got {world_size}"


def divisors_of(number: int, *, needs: str = "") -> Callable[[int], str | None]:
    """Accept the divisors of `number` from 2 on; `needs` says what is needed where there are better words for it."""
    needs = needs or f"at least 2 ranks, a divisor of {number}"

    def refuses(world_size: int) -> str | None:
        return None if world_size >= 2 and number % world_size == 0 else f"needs {needs}; got {world_size}"

    return refuses
