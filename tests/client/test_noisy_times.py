"""The client says of the same times as the site that they are too noisy."""

import pytest

import pkb.outcomes
from evaluator import contract


@pytest.mark.parametrize("low", [None, 0.0, 0.004, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("high", [None, 0.9, 5.0, 5.1, 20.0, 340105.0])
def test_client_and_site_agree_on_which_times_are_too_noisy(low, high):
    assert pkb.outcomes.is_informative(low, high) is contract.is_informative(low, high)
