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
    assert found["tiny"].submission == (80.0, 90.0)
    assert found["tiny"].reference == (100.0, 110.0, 120.0)


def test_a_long_series_is_thinned_evenly():
    numbers = tuple(range(2 * MOST_CALLS))
    drawn = timed_calls(record(tuple(call(n, n + 1, 1) for n in numbers), blocks=(numbers,), reference=()))
    times = drawn["tiny"].submission
    assert len(times) == MOST_CALLS
    assert times[:3] == (1.0, 3.0, 5.0)


@pytest.mark.parametrize("has_calls", [True, False])
def test_each_size_has_a_row_of_its_own_for_submission_and_reference(has_calls):
    sizes = scenes.timing(sizes=("tiny",)).sizes
    kept = record((call(1, 70, 80), call(2, 90, 60)), blocks=((1, 2),), reference=((100,),)) if has_calls else None
    figure = times_spread(sizes, timed_calls(kept))
    assert list(figure.layout.yaxis.ticktext) == ["tiny, submission", "tiny, reference"]
    points = {trace.name: list(trace.y) for trace in figure.data if "one call" in trace.name}
    if not has_calls:
        assert points == {}
        return
    assert all(-0.5 < height < 0.5 for height in points["submission, one call"])
    assert points["submission, one call"] == sorted(points["submission, one call"])
    assert all(0.5 < height < 1.5 for height in points["reference, one call"])
