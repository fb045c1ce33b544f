"""Trusted ranks between evaluations: their replacements import ahead, and serve in their place."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluator.errors import EvaluatorError
from evaluator.hardware import profiles
from evaluator.host import JudgeSettings
from evaluator.host.process.spawner import Spawner
from evaluator.host.ranks.pools import KeptRanks
from evaluator.host.ranks.trusted_ranks import TrustedRanks

PROFILE = "cpux2"


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[KeptRanks]:
    with Spawner() as spawner:
        profile, settings = profiles.get(PROFILE), JudgeSettings(profile=PROFILE, work_dir=tmp_path)
        kept = KeptRanks(lambda: TrustedRanks(profile, settings, spawner=spawner, work_dir=tmp_path))
        yield kept
        kept.close()


def test_a_prepared_replacement_serves_next(kept: KeptRanks) -> None:
    first = kept.take()
    before = set(kept.processes)
    kept.prepare()
    kept.prepare()
    prepared = set(kept.processes) - before
    assert prepared, "the judge must know them as its own"
    assert kept.take() is first
    kept.drop()
    second = kept.take()
    assert second is not first
    assert prepared <= set(second.processes)
    assert len(kept.canaries) == 2


def test_others_serve_after_fifty_evaluations(kept: KeptRanks) -> None:
    first = kept.take()
    assert not kept.are_spent
    assert all(kept.take() is first for _ in range(49))
    assert kept.are_spent
    kept.prepare()
    assert kept.take() is not first
    assert not kept.are_spent
    assert len(kept.canaries) == 2


def test_a_replacement_that_has_ended_is_passed_over(kept: KeptRanks) -> None:
    kept.prepare()
    ended = kept._next  # noqa: SLF001 - nothing else can end it from here
    assert ended is not None
    ended._process.kill()  # noqa: SLF001
    ended._process.wait(timeout=30)  # noqa: SLF001
    assert kept.take() is not ended


def test_ranks_that_do_not_start_are_replaced_once(tmp_path: Path) -> None:
    profile, settings = profiles.get(PROFILE), JudgeSettings(profile=PROFILE, work_dir=tmp_path)
    in_no_time = dataclasses.replace(settings, start_s=0.0)
    to_come = [in_no_time, settings, in_no_time, in_no_time, settings]
    with Spawner() as spawner:
        kept = KeptRanks(lambda: TrustedRanks(profile, to_come.pop(0), spawner=spawner, work_dir=tmp_path))
        try:
            assert kept.take().is_alive
            kept.drop()
            with pytest.raises(EvaluatorError, match="0 s"):
                kept.take()
            assert len(to_come) == 1
            kept.limit(lambda seconds: min(seconds, 1.0))
            with pytest.raises(EvaluatorError, match="0 s"):
                kept.take()
            assert len(to_come) == 1, "no others where the evaluation has no time left"
        finally:
            kept.close()


def test_ranks_that_failed_at_a_command_serve_no_more(kept: KeptRanks) -> None:
    first = kept.take()
    with pytest.raises(EvaluatorError, match="failed during 'open'"):
        first.oracle.open_size(problem="no such problem", size="tiny", dtype="bfloat16", key=bytes(32))
    kept.prove(is_full=False)
    assert len(kept.canaries) == 1, "the other rank's answer would be taken for that of the canary"
    assert kept.take() is not first
    assert len(kept.canaries) == 2


def test_nothing_of_them_is_left(kept: KeptRanks, tmp_path: Path) -> None:
    kept.take()
    kept.prepare()
    kept.close()
    assert not kept.processes
    assert not list(tmp_path.iterdir())
