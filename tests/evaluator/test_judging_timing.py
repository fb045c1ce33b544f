"""What recorded calls say: score, interval, and what speaks against them."""

import math
import re

import msgspec
import pytest

from evaluator.contract import SCORE_RULE, SizeRecord, Verdict, is_informative
from evaluator.hardware import profiles
from evaluator.judging import timing
from evaluator.judging.checks import Check
from evaluator.presentation import report_text
from tests.evaluator.forged_times import gain
from tests.evaluator.timed_records import EMPTY_US, RULES, SANDBOX_US, report_of, series


def ended_early(record: SizeRecord, *, blocks: int, us: float = 40.0) -> SizeRecord:
    """The same series where the calls of so many blocks took `us` by the host's clock, less than empty ones."""
    numbers = {number for block in record.blocks[:blocks] for number in block}
    done = (round(1000 * us),) * 2
    calls = (msgspec.structs.replace(call, done_ns=done) if call.number in numbers else call for call in record.calls)
    return msgspec.structs.replace(record, calls=tuple(calls))


def test_the_score_is_the_ratio_of_times_less_those_of_empty_calls():
    found, against = timing.conclude([series()], RULES)
    assert not against
    assert found.score == pytest.approx(2.0, rel=0.005)
    assert (found.rule, found.coverage) == (SCORE_RULE, 0.95)
    (size,) = found.sizes
    assert size.candidate.median_us == pytest.approx(100.0, rel=0.01)
    assert size.baseline.median_us == pytest.approx(200.0)
    assert size.rank_medians_us == pytest.approx((90.0, 100.0), rel=0.01)
    assert size.claimed_us == pytest.approx(90.0, rel=0.01)


def test_each_side_loses_what_an_empty_call_takes_in_its_own_ranks():
    (size,) = timing.conclude([series()], RULES)[0].sizes
    assert size.empty_us == EMPTY_US
    assert size.candidate_empty_us == EMPTY_US + SANDBOX_US
    assert size.forgeable_us == EMPTY_US - 20.0


def test_a_record_without_empty_calls_counts_whole_times():
    bare = msgspec.structs.replace(series(), empty_ns=(), bare_ns=(), reference_bare_ns=())
    found = timing.conclude([bare], RULES)[0]
    assert found.score == pytest.approx(260 / 163, rel=0.005)


def test_no_call_counts_as_less_than_the_resolution():
    found, against = timing.conclude([series(candidate_us=0.1)], RULES)
    assert not against
    assert found.sizes[0].candidate.median_us == RULES.resolution_us
    assert found.score == pytest.approx(100.0)


def test_programs_that_wait_for_the_device_have_wider_intervals():
    rules = msgspec.structs.replace(RULES, waiting_share=0.1)
    waits = msgspec.structs.replace(series(), queues=False)
    found = timing.conclude([waits], rules)[0]
    assert math.log(found.high / found.low) / 2 > 1.96 * math.hypot(0.1, 0.01)


def test_starts_of_ranks_bound_the_interval_from_below():
    found = timing.conclude([series()], RULES)[0]
    half = math.log(found.high / found.low) / 2
    assert 1.96 * math.hypot(0.01, 0.01) < half < 1.1 * 1.96 * math.hypot(0.01, 0.01)
    short = timing.conclude([series(candidate_us=10.0)], RULES)[0]
    assert math.log(short.high / short.low) / 2 > 1.96 * 0.5 / 10


def test_a_size_has_its_own_score_and_interval_and_the_score_is_their_mean():
    base, large = series(size="base"), series(size="large", candidate_us=400.0, seed=2)
    found = timing.conclude([base, large], RULES)[0]
    assert [size.score for size in found.sizes] == pytest.approx([2.0, 0.5], rel=0.005)
    assert all(size.low < size.score < size.high for size in found.sizes)
    assert found.score == pytest.approx(1.0, rel=0.005)


def test_sizes_may_have_different_numbers_of_blocks():
    long = series(size="base", reference_us=(200.0,) * 20)
    short = series(size="large", candidate_us=400.0)
    found = timing.conclude([long, short], RULES)[0]
    assert [len(size.ratios) for size in found.sizes] == [20, 12]
    assert found.blocks == pytest.approx((1.0,) * 12, rel=0.02)


def test_blocks_of_sizes_are_combined_group_by_group():
    records = [
        series(size="base", reference_us=(200.0,) * 14),
        series(size="large"),
        series(size="base", reference_us=(800.0,) * 3, group_number=2),
        series(size="large", reference_us=(800.0,) * 3, group_number=2),
    ]
    blocks = timing.conclude(records, RULES)[0].blocks
    assert blocks == pytest.approx((2.0,) * 12 + (8.0,) * 3, rel=0.02)


def test_a_second_group_that_agrees_leaves_the_score_and_the_interval():
    alone = timing.conclude([series()], RULES)[0]
    both = timing.conclude([series(), series(reference_us=(200.0,) * 3, group_number=2, seed=2)], RULES)[0]
    assert both.score == pytest.approx(alone.score, rel=0.005)
    assert math.log(both.high / both.low) <= 1.05 * math.log(alone.high / alone.low)


def test_a_second_group_that_is_slower_takes_the_lower_end_down_to_its_own():
    second = series(candidate_us=150.0, reference_us=(200.0,) * 3, group_number=2, seed=2)
    found, against = timing.conclude([series(), second], RULES)
    assert not against
    assert found.low < 200 / 150


def test_a_record_that_lacks_a_call_or_a_second_block_is_refused():
    whole = series()
    with pytest.raises(ValueError, match="not recorded"):
        timing.conclude([msgspec.structs.replace(whole, calls=whole.calls[:-1])], RULES)
    with pytest.raises(ValueError, match="at least two blocks"):
        timing.conclude([series(reference_us=(200.0,))], RULES)


SUSPICIOUS = [
    (Check.EMPTY, ended_early(series(), blocks=12), Verdict.TIMING_INCONSISTENT, "in 12 of 12 blocks"),
    (Check.EMPTY, ended_early(series(), blocks=3), Verdict.TIMING_INCONSISTENT, "40.0 us from the opening"),
    (Check.IDLE, series(busy_ms=400.0), Verdict.TIMING_INCONSISTENT, ": 0.40 processors. All ranks"),
    (Check.FLOOR, series(floor_us=150.0), Verdict.BELOW_FLOOR, "below the floor of 150.0 us"),
]


@pytest.mark.parametrize(("check", "record", "verdict", "words"), SUSPICIOUS, ids=[row[3] for row in SUSPICIOUS])
def test_each_check_finds_its_own_and_nothing_does_without_it(check, record, verdict, words):
    _, (finding,) = timing.conclude([record], RULES)
    assert finding.verdict is verdict
    assert words in finding.message
    assert timing.conclude([record], RULES, without=frozenset({check}))[1] == []


HONEST = {
    "a tick of processor time": series(busy_ms=10.0),
    "a reference that drifts": series(reference_us=(200.0,) * 6 + (260.0,) * 6),
    "a reference that was disturbed": series(reference_us=(200.0, 900.0, 200.0) * 4),
    "a program that does next to nothing": series(candidate_us=0.5),
    "a little less than an empty call": ended_early(series(), blocks=12, us=57.0),
    "two blocks that ended before empty calls": ended_early(series(), blocks=2),
    "below the floor by less than the resolution": series(floor_us=101.0),
}


@pytest.mark.parametrize("record", HONEST.values(), ids=HONEST)
def test_honest_times_stand(record):
    assert timing.conclude([record], RULES)[1] == []


def test_blocks_that_end_before_empty_calls_and_are_too_few_to_be_refused_gain_nothing():
    honest = timing.conclude([series()], RULES)[0]
    found = timing.conclude([ended_early(series(), blocks=2)], RULES)[0]
    assert found.low < 1.02 * honest.low


def test_calls_of_cpu_ranks_may_end_before_empty_ones():
    """They seal nothing, and a busy machine delays an empty call as it likes: that is no evidence."""
    early = ended_early(series(candidate_us=500.0), blocks=12)
    assert timing.conclude([early], profiles.get("cpux2").timing_rules())[1] == []


def test_calls_that_took_no_longer_than_empty_ones_give_no_finding_on_practice_boards():
    """Their net time is the resolution: the interval is honest about it, and has no use."""
    rules = profiles.get("cpux2").timing_rules()
    record = ended_early(series(candidate_us=500.0, reference_us=(10_000.0,) * 12), blocks=12)
    found = timing.conclude([record], rules)[0]
    assert found.score > 400
    assert not is_informative(found.low, found.high)
    assert not is_informative(found.sizes[0].low, found.sizes[0].high)
    words = report_text(msgspec.structs.replace(report_of(series()), timing=found))
    assert words.count("too noisy to tell a speedup") == 2
    assert "tiny: 20.0 us against" in words
    assert f"{found.high:.3f}" not in words
    quiet = timing.conclude([series(candidate_us=500.0, reference_us=(1000.0,) * 12)], rules)[0]
    assert is_informative(quiet.low, quiet.high)


@pytest.mark.parametrize(
    ("low", "high", "is_telling"),
    [(0.9, 1.1, True), (0.5, 5.0, True), (0.5, 5.1, False), (2.0, 30.0, False), (None, None, True), (0.0, 1.0, False)],
)
def test_an_interval_is_too_noisy_if_its_ends_are_more_than_tenfold_apart(low, high, is_telling):
    assert is_informative(low, high) is is_telling


def test_what_ranks_claim_changes_no_score():
    assert gain(report_of(series(), series(size="large", seed=2))) is None


def test_the_limit_of_busy_processors_grows_with_the_ranks_and_lets_them_busy_poll_on_gpus():
    def verdicts(profile: str, *, busy_ms: float) -> set[Verdict]:
        """Of a second watched."""
        rules = profiles.get(profile).timing_rules()
        return {finding.verdict for finding in timing.conclude([series(busy_ms=busy_ms)], rules)[1]}

    assert verdicts("cpux2", busy_ms=45) == verdicts("cpux4", busy_ms=85) == set()
    assert verdicts("cpux2", busy_ms=55) == verdicts("cpux4", busy_ms=95) == {Verdict.TIMING_INCONSISTENT}
    assert verdicts("h200x2-nomc", busy_ms=2_000) == verdicts("h200x4-nomc", busy_ms=4_000) == set()
    assert (
        verdicts("h200x2-nomc", busy_ms=7_000)
        == verdicts("h200x4-nomc", busy_ms=14_000)
        == {Verdict.TIMING_INCONSISTENT}
    )


def test_a_thousand_clones_do_not_raise_the_ranked_value():
    """Row 39, noise mining: the lower end of the luckiest clone stays below the score of the honest median."""
    lows = [timing.conclude([series(seed=seed)], RULES)[0].low for seed in range(200)]
    assert max(lows) < 2.0


def test_a_series_of_calm_blocks_may_stop_and_one_of_wild_blocks_goes_on():
    # Ten calm blocks say less about the speed than one start does.
    assert timing.may_stop([series(reference_us=(200.0,) * 10)], RULES)
    assert not timing.may_stop([series(reference_us=(200.0,) * 9)], RULES)
    assert not timing.may_stop([series(reference_us=(150.0, 270.0) * 10)], RULES)
    assert not timing.may_stop([series(reference_us=())], RULES)


@pytest.mark.parametrize(("profile", "says_a_factor"), [("cpux2", False), ("h100x2", True)])
def test_a_terminal_shows_a_factor_where_times_rank(profile, says_a_factor):
    report = msgspec.structs.replace(report_of(series()), profile=profile)
    words = report_text(report)
    assert (re.search(r"speedup \d", words) is not None) is says_a_factor
    assert ("speedup is indicative here (95 % interval" in words) is not says_a_factor
