"""A minute of chaos: nothing is lost, nothing is twice, quotas are exact."""

import pytest

from tools.chaos.load import Pace
from tools.chaos.trial import Wishes, run

pytestmark = [pytest.mark.production, pytest.mark.slow]


@pytest.mark.timeout(1500)
def test_nothing_is_lost_while_everything_dies(tmp_path):
    wishes = Wishes(seed=5, minutes=1, nodes=6, pace=Pace(per_second=1.0), every_s=3.0)
    trial = run(wishes, tmp_path / "site")
    assert trial.found.wrong == ()
    assert trial.caller_log.submissions
    assert trial.caller_log.attempts
    assert sum(trial.happened.values()) > 5
