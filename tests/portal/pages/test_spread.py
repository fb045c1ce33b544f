"""The plot of how times spread: every timed call of the report, in order, beside its summary."""

import pytest

from evaluator.contract import CallKind, CallRecord, Record, ReferenceCall, SizeRecord
from evaluator.hardware import profiles
from portal.charts.chart import Points
from portal.charts.spread import MOST_CALLS, Series, timed_calls, times_spread
from tests.portal.pages import scenes


def call(number, *done_us):
    return CallRecord(
        number=number,
        kind=CallKind.PLAIN,
        draw=number,
        near=None,
        is_reused=False,
        is_checked=True,
        delays_us=(0, 0),
        done_ns=tuple(int(us * 1000) for us in done_us),
        head_ns=1,
        has_queued=True,
        claimed_ns=(1, 1),
        marks=("a", "b"),
        max_error=0.0,
    )


def record(calls, *, blocks, reference, **more):
    phases = tuple(tuple(ReferenceCall(time_ns=int(us * 1000), claimed_ns=1) for us in phase) for phase in reference)
    size = SizeRecord(size="tiny", payload_bytes=8, floor_us=None, calls=calls, blocks=blocks, reference=phases, **more)
    return Record(rules=profiles.get("h200x2").timing_rules(), sizes=(size,))


def test_only_timed_calls_are_drawn_each_as_long_as_its_slowest_rank():
    calls = (call(0, 900, 900), call(1, 70, 80), call(2, 90, 60))
    series = timed_calls(record(calls, blocks=((1,), (2,)), reference=((100, 110), (120,))))["tiny"]
    assert series.submission == (80.0, 90.0)
    assert series.reference == (100.0, 110.0, 120.0)


def test_calls_are_drawn_less_what_empty_ones_take():
    empty = {"empty_ns": (50_000,), "bare_ns": (23_000,), "reference_bare_ns": (20_000,)}
    series = timed_calls(record((call(1, 70, 80),), blocks=((1,),), reference=((100,),), **empty))["tiny"]
    assert (series.submission, series.reference) == ((27.0,), (50.0,))


def test_the_calls_of_both_gangs_are_drawn_for_both_count():
    first, second = ((call(1, 70, 70), call(2, 60, 60)), (call(1, 81, 80), call(2, 79, 80)))
    kept = [record(calls, blocks=((1, 2),), reference=((100,),)) for calls in (first, second)]
    both = Record(rules=kept[0].rules, sizes=(*kept[0].sizes, *kept[1].sizes))
    figure = times_spread(scenes.timing(sizes=("tiny",)).sizes[0], timed_calls(both)["tiny"])
    assert [point.x for point in scenes.layer(figure, "submission, one call").points] == [70.0, 60.0, 81.0, 80.0]


def test_a_record_that_lacks_a_call_draws_none():
    assert timed_calls(record((call(1, 70, 80),), blocks=((1, 2),), reference=((100,),))) == {}


def test_a_long_series_is_thinned_evenly():
    numbers = tuple(range(2 * MOST_CALLS))
    series = timed_calls(record(tuple(call(n, n + 3, 1) for n in numbers), blocks=(numbers,), reference=((9,),)))[
        "tiny"
    ]
    times = series.submission
    assert len(times) == MOST_CALLS
    assert times[:3] == (3.0, 5.0, 7.0)


@pytest.mark.parametrize("has_calls", [True, False])
def test_submission_and_reference_have_a_row_each(has_calls):
    (size,) = scenes.timing(sizes=("tiny",)).sizes
    kept = record((call(1, 70, 80), call(2, 90, 60)), blocks=((1, 2),), reference=((100,),)) if has_calls else None
    figure = times_spread(size, timed_calls(kept).get("tiny", Series()))
    assert [name for _, name in figure.y.names] == ["submission", "reference"]
    drawn = [layer for layer in figure.layers if isinstance(layer, Points) and "one call" in layer.name]
    points = {layer.name: [point.y for point in layer.points] for layer in drawn}
    if not has_calls:
        assert points == {}
        return
    assert all(-0.5 < height < 0.5 for height in points["submission, one call"])
    assert points["submission, one call"] == sorted(points["submission, one call"])
    assert all(0.5 < height < 1.5 for height in points["reference, one call"])
