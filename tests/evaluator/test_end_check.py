"""Where samples of shared memory are taken at the end of a call."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from evaluator.oracle.end_check import SamplePattern, _samples


@given(begin=st.integers(0, 2**20), size=st.integers(1, 2**30), secret=st.integers(0, 2**32 - 1))
def test_samples_lie_inside_of_what_is_looked_at(begin: int, size: int, secret: int) -> None:
    pattern = SamplePattern.drawn(begin, begin + size, secret=secret)
    assert pattern is not None
    last = pattern.start + (pattern.rows - 1) * pattern.pitch + pattern.width
    assert begin <= pattern.start < last <= begin + size
    assert pattern.rows == 1 or pattern.pitch >= pattern.width


def test_every_byte_of_outputs_may_be_looked_at() -> None:
    """A program that leaves a part for later cannot choose one that no secret reaches."""
    size = 1000
    area = torch.arange(size)
    seen: set[int] = set()
    for secret in range(size):
        pattern = SamplePattern.drawn(0, size, secret=secret)
        assert pattern is not None
        starts = [pattern.start + row * pattern.pitch for row in range(pattern.rows)]
        looked_at = [byte for start in starts for byte in range(start, start + pattern.width)]
        assert _samples(area, pattern).tolist() == looked_at
        seen.update(looked_at)
    assert len(seen) > size - pattern.rows


def test_nothing_is_looked_at_where_there_is_nothing() -> None:
    assert SamplePattern.drawn(64, 64, secret=7) is None
