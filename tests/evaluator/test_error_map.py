"""Where wrong elements lie: the map, the index of the largest error, and the pattern in words."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.contract import ErrorMap, ErrorPattern
from evaluator.oracle.error_map import GRID, draw


def mapped(errors: torch.Tensor, *, world_size: int = 4, rows_a_block: int = 7) -> ErrorMap | None:
    """The map of an output with these errors, given in blocks of rows as the comparison gives them."""
    width = errors.shape[-1] if errors.dim() else 1
    rows = errors.reshape(-1, width)
    blocks = ((start * width, rows[start : start + rows_a_block]) for start in range(0, len(rows), rows_a_block))
    return draw(iter(blocks), shape=tuple(errors.shape), world_size=world_size)


def errors(*shape: int, at: Any, value: float = 5.0) -> torch.Tensor:
    """Correct except in the elements `at`."""
    tensor = torch.zeros(shape, dtype=torch.float64)
    tensor[at] = value
    return tensor


SCATTER = (torch.arange(0, 100, 9), torch.arange(0, 100, 9) * 37 % 100)
QUARTER, TILE = (..., slice(48, 64)), (slice(10, 20), slice(30, 40))
PATTERNS = [
    ("everywhere", errors(64, 64, at=...), ErrorPattern.EVERYWHERE, "100%"),
    ("one rank's rows", errors(64, 64, at=slice(16, 32)), ErrorPattern.ONE_SHARD, "part 2 of 4 along dimension 0"),
    ("one rank's columns", errors(8, 64, at=QUARTER), ErrorPattern.ONE_SHARD, "part 4 of 4 along dimension 1"),
    ("one rank's layer", errors(4, 10, 10, at=2), ErrorPattern.ONE_SHARD, "part 3 of 4 along dimension 0"),
    ("one row", errors(64, 64, at=5), ErrorPattern.ROWS, "whole rows (5 along dimension 0)"),
    ("some rows", errors(63, 63, at=slice(3, 6)), ErrorPattern.ROWS, "3 to 5"),
    ("one column", errors(2, 63, 63, at=(..., 7)), ErrorPattern.COLUMNS, "(7 along dimension 2)"),
    ("a block", errors(63, 63, at=TILE), ErrorPattern.BLOCK, "rows 10 to 19, columns 30 to 39"),
    ("scattered", errors(100, 100, at=SCATTER), ErrorPattern.SCATTERED, "12 rows and 12 columns"),
    ("one element", errors(50, 50, at=(3, 5)), ErrorPattern.SCATTERED, "in a single element"),
    ("one number", errors(at=...), ErrorPattern.EVERYWHERE, "100%"),
    ("a vector's end", errors(63, at=slice(50, 63)), ErrorPattern.COLUMNS, "50 to 62"),
]  # fmt: skip


@pytest.mark.parametrize(("tensor", "pattern", "words"), [case[1:] for case in PATTERNS], ids=[c[0] for c in PATTERNS])
def test_pattern_is_named(tensor: torch.Tensor, pattern: ErrorPattern, words: str) -> None:
    found = mapped(tensor)
    assert found is not None
    assert found.pattern is pattern, found.sentence
    assert words in found.sentence
    assert sum(map(sum, found.counts)) == int((tensor > 1).sum())


def test_a_share_says_which_elements_it_counts() -> None:
    tensor = errors(64, 64, at=..., value=0.5)
    tensor[::4, ::16] = 3.0
    found = mapped(tensor)
    assert found is not None
    assert "nearly everywhere (100% of all elements are off by over 0.25 times the limit)" in found.sentence


def test_pattern_is_that_of_all_that_is_off_where_a_wide_tolerance_covers_most() -> None:
    tensor = errors(64, 64, at=slice(32, 64), value=0.5)
    tensor[32:64:4, ::16] = 3.0
    found = mapped(tensor, world_size=2)
    assert found is not None
    assert (found.pattern, found.shards) == (ErrorPattern.ONE_SHARD, (0, 32))
    assert "in part 2 of 2 along dimension 0 (100% of it)" in found.sentence


def test_largest_error_and_shards_are_named() -> None:
    tensor = errors(64, 40, at=slice(0, 16), value=2.0)
    tensor[7, 33] = 9.0
    found = mapped(tensor)
    assert found is not None
    assert found.largest_at == (7, 33)
    assert (found.shard_dimension, found.shards) == (0, (16 * 40, 0, 0, 0))
    assert ErrorMap.from_json(found.to_json()) == found


def test_right_output_has_no_map() -> None:
    assert mapped(torch.ones(5, 5)) is None
    assert mapped(torch.zeros(0, 5)) is None


@settings(max_examples=25, deadline=None)
@given(
    shape=st.lists(st.sampled_from([1, 2, 3, 8, 40]), max_size=3),
    world_size=st.sampled_from([1, 2, 4]),
    rows_a_block=st.sampled_from([13, 40, 1000]),
    seed=st.integers(0, 2**32),
)
def test_any_output_keeps_its_count(shape: list[int], world_size: int, rows_a_block: int, seed: int) -> None:
    tensor = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * 1.2
    wrong = int((tensor > 1).sum())
    found = mapped(tensor, world_size=world_size, rows_a_block=rows_a_block)
    if not wrong:
        assert found is None
        return
    assert found is not None
    assert sum(map(sum, found.counts)) == wrong
    assert len(found.counts) <= GRID
    assert max(map(len, found.counts)) <= GRID
    assert sum(found.shards) in (0, wrong)
    assert float(tensor[found.largest_at]) == float(tensor.max())
