"""The client says of the same speedups as the site what they are, and of the same times that they are too noisy."""

import pytest

import pkb.outcomes
from evaluator import contract
from portal.core import speedups


@pytest.mark.parametrize("low", [None, 0.0, 0.004, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("high", [None, 0.9, 5.0, 5.1, 20.0, 340105.0])
def test_client_and_site_agree_on_which_times_are_too_noisy(low, high):
    assert pkb.outcomes.is_informative(low, high) is contract.is_informative(low, high)


@pytest.mark.parametrize("score", [0.0035, 0.144, 0.97, 1.163, 9.96, 20.456, 340.5])
@pytest.mark.parametrize("width", [0, 0.0001, 0.004, 0.08, 0.6, 2.5])
def test_client_and_site_show_the_same_digits(score, width):
    low, high = score * (1 - width / 4), score * (1 + width)
    said = pkb.outcomes.speedup(score, low, high)
    if low < high and contract.is_informative(low, high):
        assert speedups.interval(low, high) in said
    words = speedups.in_words(score, low, high, profile="h200x2-nomc")
    same = {"too noisy to tell": "too noisy to tell", "not distinguishable": "not distinguishable"}
    assert same.get(words, f"{words[:-1]}x the reference's speed") in said
