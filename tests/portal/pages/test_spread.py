"""The plot of how times spread: every timed call of the report, in order, beside its summary."""

import pytest

from evaluator.contract import CallKind, CallRecord, Record, ReferenceCall, SizeRecord, TimingRules
from portal.charts.spread import MOST_CALLS, timed_calls, times_spread
from tests.portal.pages import scenes


def call(number, *claimed_us):
    return CallRecord(
        number=number,
        kind=CallKind.PLAIN,
        content=number,
        near=None,
        is_reused=False,
        is_checked=True,
        delays_us=(0, 0),
        window_ns=1,
        answer_ns=1,
        claimed_ns=tuple(int(us * 1000) for us in claimed_us),
        settled_ns=(1, 1),
        fingerprints=("a", "b"),
        max_error=0.0,
    )


def record(calls, *, blocks, reference):
    rules = TimingRules(
        band_us=1, band_bytes_us=1, settle_ratio=None, settle_jitter_us=1, baseline_drift=None, baseline_jitter_us=1
    )
    legs = tuple(tuple(ReferenceCall(longest_ns=int(us * 1000), answer_ns=1) for us in leg) for leg in reference)
    size = SizeRecord(size="tiny", payload_bytes=8, floor_us=None, calls=calls, blocks=blocks, reference=legs)
    return Record(rules=rules, sizes=(size,))


def test_only_timed_calls_are_drawn_each_as_long_as_its_slowest_rank():
    calls = (call(0, 900, 900), call(1, 70, 80), call(2, 90, 60))
    found = timed_calls(record(calls, blocks=((1,), (2,)), reference=((100, 110), (120,))))
    (series,) = found["tiny"]
    assert series.submission == (80.0, 90.0)
    assert series.reference == (100.0, 110.0, 120.0)


def test_of_two_gangs_the_one_that_counts_is_drawn():
    fast, slow = ((call(1, 70, 70), call(2, 60, 60)), (call(1, 81, 80), call(2, 79, 80)))
    kept = [record(calls, blocks=((1, 2),), reference=((100,),)) for calls in (fast, slow)]
    both = Record(rules=kept[0].rules, sizes=(*kept[0].sizes, *kept[1].sizes))
    figure = times_spread(scenes.timing(sizes=("tiny",)).sizes[0], timed_calls(both)["tiny"])
    assert next(list(trace.x) for trace in figure.data if trace.name == "submission, one call") == [81.0, 80.0]


def test_a_long_series_is_thinned_evenly():
    numbers = tuple(range(2 * MOST_CALLS))
    drawn = timed_calls(record(tuple(call(n, n + 1, 1) for n in numbers), blocks=(numbers,), reference=()))
    (series,) = drawn["tiny"]
    times = series.submission
    assert len(times) == MOST_CALLS
    assert times[:3] == (1.0, 3.0, 5.0)


@pytest.mark.parametrize("has_calls", [True, False])
def test_submission_and_reference_have_a_row_each(has_calls):
    (size,) = scenes.timing(sizes=("tiny",)).sizes
    kept = record((call(1, 70, 80), call(2, 90, 60)), blocks=((1, 2),), reference=((100,),)) if has_calls else None
    figure = times_spread(size, timed_calls(kept).get("tiny", ()))
    assert list(figure.layout.yaxis.ticktext) == ["submission", "reference"]
    points = {trace.name: list(trace.y) for trace in figure.data if "one call" in trace.name}
    if not has_calls:
        assert points == {}
        return
    assert all(-0.5 < height < 0.5 for height in points["submission, one call"])
    assert points["submission, one call"] == sorted(points["submission, one call"])
    assert all(0.5 < height < 1.5 for height in points["reference, one call"])
