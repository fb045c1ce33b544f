"""One judge for the tests of a worker: its oracle ranks start once."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluator.host import Judge, JudgeSettings

SETTINGS = JudgeSettings(profile="cpux2", call_limit_s=5.0, first_call_s=0.0, import_s=10.0, stall_s=1.0, warm=True)
"""Short deadlines, so that a hang is found soon; everything else as a site has it."""


class Shared:
    """The judge with SETTINGS that files share: it starts when it is first asked for, and anew after a close."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self._judge: Judge | None = None

    def judge(self) -> Judge:
        """The judge, after a close another one."""
        if self._judge is None:
            self._judge = Judge(dataclasses.replace(SETTINGS, work_dir=self._factory.mktemp("slot")))
        return self._judge

    def close(self) -> None:
        """End its processes."""
        judge, self._judge = self._judge, None
        if judge is not None:
            judge.close()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    shared = Shared(tmp_path_factory)
    yield shared
    shared.close()


@pytest.fixture(scope="module")
def judge(shared: Shared) -> Iterator[Judge]:
    """The judge that files share; a file that leaves it unclean takes it along."""
    judge = shared.judge()
    yield judge
    if judge.quarantine:
        shared.close()


@pytest.fixture(scope="module")
def alone(shared: Shared) -> None:
    """No process of the shared judge, for a file that looks for processes."""
    shared.close()


@pytest.fixture(scope="module")
def work_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("slot")
