"""Where samples of shared memory are taken at the end of a call."""

from hypothesis import given
from hypothesis import strategies as st

from evaluator.oracle.witness import Places


@given(begin=st.integers(0, 2**20), size=st.integers(1, 2**30), secret=st.integers(0, 2**32 - 1))
def test_samples_lie_inside_of_what_is_looked_at(begin: int, size: int, secret: int) -> None:
    places = Places.drawn(begin, begin + size, secret=secret)
    assert places is not None
    last = places.start + (places.rows - 1) * places.pitch + places.width
    assert begin <= places.start < last <= begin + size
    assert places.rows == 1 or places.pitch >= places.width


def test_every_byte_of_outputs_may_be_looked_at() -> None:
    """A program that leaves a part for later cannot choose one that no secret reaches."""
    size = 1000
    seen: set[int] = set()
    for secret in range(size):
        places = Places.drawn(0, size, secret=secret)
        assert places is not None
        for row in range(places.rows):
            start = places.start + row * places.pitch
            seen.update(range(start, start + places.width))
    assert len(seen) > size - places.rows


def test_nothing_is_looked_at_where_there_is_nothing() -> None:
    assert Places.drawn(64, 64, secret=7) is None
