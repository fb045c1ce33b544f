"""One judge for a module of tests: its oracle ranks start once."""

from collections.abc import Iterator

import pytest

from evaluator.host import Judge, JudgeSettings

SETTINGS = JudgeSettings(profile="cpux2", call_limit_s=3.0, first_call_s=0.0, import_s=5.0, warm=True)
"""Short deadlines, so that a hang is found soon; everything else as a site has it."""


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(SETTINGS) as started:
        yield started
