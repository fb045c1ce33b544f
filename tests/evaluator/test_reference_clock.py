"""The reference's calls before and in a series, on real trusted ranks."""

import itertools
import secrets

import pytest

from evaluator.errors import EvaluatorError
from evaluator.hardware import profiles
from evaluator.host import JudgeSettings
from evaluator.host.measure.references import RecordedReferences, ReferenceClock
from evaluator.host.process.spawner import Spawner
from evaluator.host.ranks.trusted_ranks import TrustedRanks


@pytest.fixture(scope="module")
def trusted(tmp_path_factory):
    with Spawner() as spawner:
        ranks = TrustedRanks(
            profiles.get("cpux2"),
            JudgeSettings(profile="cpux2"),
            spawner=spawner,
            work_dir=tmp_path_factory.mktemp("slot"),
        )
        try:
            ranks.wait_until_ready()
            yield ranks
        finally:
            ranks.close()


def test_no_call_of_the_reference_repeats_inputs(trusted):
    """A mixture of experts: its shapes follow from its inputs, and a library may look for a kernel at each."""
    opened = trusted.open_size(problem="fused_moe_fwd", size="tiny", dtype="bfloat16", key=secrets.token_bytes(32))
    draws = itertools.count()
    clock = ReferenceClock(trusted, opened, draws)
    speed = clock.open(calls=6, seconds=60.0)
    before = next(draws)
    assert before >= 6
    assert 0 < speed.call_s < speed.turn_s
    for _ in range(3):
        clock.time()
    assert next(draws) == before + 1 + 3
    clock.reopen(speed, calls=2)
    assert next(draws) == before + 1 + 3 + 1 + 2


def test_the_calls_before_a_series_end_in_time_but_are_some(trusted):
    opened = trusted.open_size(problem="allreduce", size="tiny", dtype="bfloat16", key=secrets.token_bytes(32))
    draws = itertools.count()
    clock = ReferenceClock(trusted, opened, draws)
    clock.open(calls=1000, seconds=0.0)
    assert 4 <= next(draws) < 20


def test_the_reference_is_recorded_by_ranks_of_their_own_which_hold_no_memory_afterwards(trusted):
    references, asked = RecordedReferences(), {"problem": "allreduce", "size": "tiny", "dtype": "bfloat16"}
    recorded = references.take(trusted, **asked)
    assert [len(rank.spans) > 0 for rank in recorded.ranks] == [True, True]
    opened = trusted.open_size(**asked, key=secrets.token_bytes(32))
    with pytest.raises(EvaluatorError, match="before it opened a problem"):
        ReferenceClock(trusted, opened, itertools.count(), ranks=trusted.recorder).time()
    assert ReferenceClock(trusted, opened, itertools.count()).time().time.longest_ns > 0
    assert references.take(trusted, **asked) is recorded
