"""The client says of the same speedups as the site what they are, and of the same times that they are too noisy."""

import pytest

import pkb.outcomes
from evaluator import contract
from evaluator.hardware import profiles
from portal.core import speedups

SIGN = "\N{MULTIPLICATION SIGN}"


@pytest.mark.parametrize("low", [None, 0.0, 0.004, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("high", [None, 0.9, 5.0, 5.1, 20.0, 340105.0])
def test_client_and_site_agree_on_which_times_are_too_noisy(low, high):
    assert pkb.outcomes.is_informative(low, high) is contract.is_informative(low, high)


@pytest.mark.parametrize("score", [0.0035, 0.144, 0.97, 1.163, 9.96, 20.456, 340.5])
@pytest.mark.parametrize("width", [0, 0.0001, 0.004, 0.08, 0.6, 2.5])
@pytest.mark.parametrize("profile", ["h200x2-nomc", "cpux2"])
def test_client_and_site_say_the_same_with_the_same_digits(score, width, profile):
    low, high = score * (1 - width / 4), score * (1 + width)
    said = pkb.outcomes.speedup(score, low, high, profile=profile)
    if low < high and contract.is_informative(low, high):
        assert speedups.interval(low, high) in said
    words = speedups.in_words(score, low, high, profile=profile)
    assert (f"{words[:-1]}x the reference's speed" if words[-1] == SIGN else words) in said


def test_client_knows_the_practice_profiles():
    practice = {name for name, profile in profiles.profiles().items() if not profile.is_ranked_by_speed}
    assert practice == pkb.outcomes.PRACTICE
