"""A minute of chaos on each broker: nothing is lost, nothing is twice, quotas are exact."""

import pytest

from tests.chaos.load import Pace
from tests.chaos.trial import Wishes, run

pytestmark = [pytest.mark.production, pytest.mark.slow]


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_nothing_is_lost_while_everything_dies(tmp_path, broker):
    wishes = Wishes(seed=5, minutes=1, nodes=6, pace=Pace(per_second=1.0), every_s=3.0, broker=broker)
    trial = run(wishes, tmp_path / "site")
    assert trial.found.wrong == ()
    assert trial.caller_log.submissions
    assert trial.caller_log.attempts
    assert sum(trial.happened.values()) > 5
