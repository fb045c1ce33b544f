"""One judge for a module of tests: its oracle ranks start once."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluator.host import Judge, JudgeSettings

SETTINGS = JudgeSettings(profile="cpux2", call_limit_s=5.0, first_call_s=0.0, import_s=10.0, stall_s=1.0, warm=True)
"""Short deadlines, so that a hang is found soon; everything else as a site has it."""


@pytest.fixture(scope="module")
def work_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("slot")


@pytest.fixture(scope="module")
def judge(work_dir: Path) -> Iterator[Judge]:
    with Judge(dataclasses.replace(SETTINGS, work_dir=work_dir)) as started:
        yield started
