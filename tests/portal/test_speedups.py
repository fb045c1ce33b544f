"""A speedup in words claims no more than its interval shows."""

import pytest

from portal.core import speedups

SIGN = "\N{MULTIPLICATION SIGN}"
GPUS, PRACTICE = "h200x2-nomc", "cpux2"


@pytest.mark.parametrize(
    ("speedup", "profile", "words", "ends"),
    [
        ((20.456, 19.1, 21.9), GPUS, "20" + SIGN, "19.1 to 21.9"),
        ((10.399, 10.2, 10.6), GPUS, "10.4" + SIGN, "10.20 to 10.60"),
        ((1.424, 1.419, 1.428), GPUS, "1.424" + SIGN, "1.419 to 1.428"),
        ((0.5, 0.45, 0.56), GPUS, "0.50" + SIGN, "0.45 to 0.56"),
        ((1.16, 0.88, 1.53), GPUS, "not distinguishable", "0.88 to 1.53"),
        ((1.16, 0.88, 1.53), PRACTICE, "about as fast", "0.88 to 1.53"),
        ((0.48, 0.30, 0.75), PRACTICE, "about as fast", "0.30 to 0.75"),
        ((0.144, 0.076, 0.274), PRACTICE, "slower here", "0.08 to 0.27"),
        ((25.7, 0.07, 665.0), GPUS, "too noisy to tell", None),
        ((1.0, 0.0, 0.0), "gpu1r2", "not timed", None),
    ],
)
def test_digits_and_claims_end_where_the_interval_does(speedup, profile, words, ends):
    _, low, high = speedup
    assert speedups.in_words(*speedup, profile=profile) == words
    assert ends is None or speedups.interval(low, high) == ends


def test_cells_say_no_difference_by_a_sign_and_small_factors_keep_a_digit():
    assert speedups.in_short(1.16, 0.88, 1.53, profile=GPUS) == "≈ 1" + SIGN
    assert speedups.in_short(2.16, 1.9, 2.4, profile=GPUS) == "2.2" + SIGN
    assert speedups.factor(50.08) == "50.1" + SIGN
    assert speedups.factor(0.0034) == "0.003" + SIGN
    assert speedups.factor(6.93, 6.93, 6.93) == "6.93" + SIGN, "a way of timing without an interval"
