"""Charts as the server draws them: well-formed, obedient to the policy, and true to the numbers."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from portal.charts import figures
from portal.charts.chart import Axis, Band, Bar, Bars, Chart, Line, Point, Points, Ruler, Scale, Unit, Whisker, ticks
from portal.charts.drawing import svg
from portal.charts.figures import _MAKERS, _SYMBOLS, digest, figure, figure_file, figure_json
from portal.charts.runs import agent_problems
from portal.charts.times import record_line

PLAIN = Axis(low=0.0, high=10.0)


def points(*places, **look):
    found = tuple(Point(x=x, y=y, tip=f"{x}|{y}") for x, y in places)
    return Points(**({"name": "marks", "tone": "accent", "symbol": "dot", "points": found} | look))


def drawn(*layers, x=PLAIN, y=PLAIN, width=600, **more):
    return svg(Chart(x=x, y=y, layers=layers, **more), width=width, label="a chart")


def said(picture):
    """The path of every mark by what its title says."""
    marks = [each for each in ET.fromstring(picture).iter() if each.find("title") is not None]
    return {mark.find("title").text: mark.get("d") for mark in marks}


def place_of(picture, tip):
    """Where the path of a round mark begins: its left edge and its middle."""
    path = said(picture)[tip]
    return tuple(float(number) for number in re.match(r"M(\S+) (\S+?)a", path).groups())


EVERYTHING = (
    Band(name="band", tone="accent", low=2, high=3),
    Line(name="line", tone="danger", points=(Point(x=0, y=0), Point(x=10, y=10)), dash="dash", label="<limit>"),
    Whisker(tone="text", x=5, y=5, low=4, high=6),
    Bars(name="bars", tone="success", pattern="x", bars=(Bar(at=3, start=0, end=4, tip='"four"'),)),
    points((1, 1), (2, 2)),
)


@pytest.mark.parametrize("width", [380, 1140])
def test_a_chart_is_well_formed_and_needs_neither_script_nor_style(width):
    picture = drawn(*EVERYTHING, width=width)
    tags = {element.tag for element in ET.fromstring(picture).iter()}
    assert tags <= {"svg", "g", "path", "rect", "text", "title", "pattern"}
    assert " style=" not in picture
    assert "&lt;limit&gt;" in picture
    assert 'aria-label="a chart"' in picture


def test_marks_stand_where_their_values_say():
    picture = drawn(points((0, 0), (10, 0), (5, 10)))
    (left, ground), (right, _), (middle, top) = (place_of(picture, tip) for tip in ("0|0", "10|0", "5|10"))
    assert middle == pytest.approx((left + right) / 2, abs=0.1)
    assert top < ground


def test_equal_factors_take_equal_room_on_a_logarithmic_axis():
    picture = drawn(points((1, 1), (10, 1), (100, 1)), x=Axis(scale=Scale.LOG))
    first, second, third = (place_of(picture, f"{x}|1")[0] for x in (1, 10, 100))
    assert second - first == pytest.approx(third - second, abs=0.15)


def test_what_lies_beyond_the_ends_stands_at_the_edge_as_a_triangle():
    picture = drawn(points((5, 5), (50, 5), (5, -20)))
    shapes = said(picture)
    assert "a" in shapes["5|5"]
    assert [shapes[tip].count("L") for tip in ("50|5", "5|-20")] == [2, 2]
    corners = [float(number) for number in re.findall(r"[ML](\S+) ", shapes["50|5"])]
    assert max(corners) <= 600


def test_a_line_outside_of_the_frame_is_cut_at_it():
    line = Line(name="line", tone="text", points=(Point(x=-10, y=5), Point(x=20, y=5)))
    path = re.search(r'd="(M[^"]*)" fill="none" stroke="currentColor" stroke-width="1.8"', drawn(line))[1]
    xs = [float(number) for number in re.findall(r"[ML](\S+) ", path)]
    assert min(xs) > 0
    assert max(xs) <= 600
    beyond = Line(name="line", tone="text", points=(Point(x=1, y=50), Point(x=9, y=50)))
    assert 'stroke-width="1.8"' not in drawn(beyond)


def test_a_legend_names_what_is_not_named_in_the_picture():
    texts = [each.text for each in ET.fromstring(drawn(*EVERYTHING)).iter("text")]
    assert [name for name in ("band", "line", "bars", "marks") if name in texts] == ["band", "bars", "marks"]
    assert ">marks<" not in drawn(points((1, 1)))


@pytest.mark.parametrize(
    ("axis", "low", "high", "written"),
    [
        (Axis(), 0.0, 10.0, ["0", "2", "4", "6", "8", "10"]),
        (Axis(unit=Unit.SHARE), 0.0, 0.5, ["0 %", "10 %", "20 %", "30 %", "40 %", "50 %"]),
        (Axis(scale=Scale.LOG), 0.5, 2e6, ["1", "10", "100", "1k", "10k", "100k", "1M"]),
        (Axis(scale=Scale.LOG, unit=Unit.MICROSECONDS), 80.0, 12_000.0, ["100 µs", "1 ms", "10 ms"]),
        (Axis(scale=Scale.TIME), 1.7672256e9, 1.7680896e9, ["01 Jan 2026", "03 Jan 2026"]),
        # A first record of some hours ago: an axis without a tick says nothing.
        (Axis(scale=Scale.TIME), 1.7672258e9, 1.7672384e9, ["01 Jan 00:30", "01 Jan 01:00"]),
    ],
)  # fmt: skip
def test_ticks_are_numbers_that_people_read(axis, low, high, written):
    ruler = Ruler(axis=axis, low=low, high=high, start=0, end=500)
    assert [text for _, text in ticks(ruler)][: len(written)] == written


def test_plotlys_figure_has_the_frame_of_the_picture_and_its_marks():
    chart = Chart(x=PLAIN, y=PLAIN, layers=(*EVERYTHING, points((50, 5), name="far")), can_zoom=True)
    made = json.loads(figure_json(chart))
    traces = {trace["name"]: trace for trace in made["data"]}
    assert (traces["marks"]["x"], traces["marks"]["y"]) == ([1, 2], [1, 2])
    assert [text for _, text in traces["marks"]["customdata"]] == ["1|1", "2|2"]
    assert (traces["far"]["x"], traces["far"]["marker"]["symbol"]) == ([10.0], ["triangle-right"])
    margin, layout = made["layout"]["margin"], made["layout"]
    frame = [margin["l"], margin["t"], layout["width"] - margin["r"], layout["height"] - margin["b"]]
    drawn_in = re.search(r'data-frame="([^"]*)"', svg(chart, width=layout["width"]))[1]
    assert frame == pytest.approx([float(end) for end in drawn_in.split()], abs=0.05)
    assert (layout["xaxis"]["range"], layout["xaxis"]["fixedrange"]) == ([0.0, 10.0], False)
    logarithmic = figure(Chart(x=Axis(scale=Scale.LOG, low=1.0, high=100.0), y=PLAIN, layers=()))
    assert logarithmic.layout.xaxis.range == (0.0, 2.0)


@pytest.mark.parametrize("scale", list(Scale))
def test_plotly_accepts_figures_of_every_layer_axis_and_mark(scale):
    axis = Axis(title="x", scale=scale, low=1.0, high=10.0, names=((1.0, "one"),))
    marks = [points((2, 2), (20, 2), symbol=symbol) for symbol in _SYMBOLS]
    chart = Chart(x=axis, y=replace(axis, names=()), layers=(*EVERYTHING, *marks), can_zoom=True)
    assert {type(layer) for layer in EVERYTHING} == set(_MAKERS)
    assert len(figure(chart).data) == len(chart.layers)


def test_a_figures_address_changes_with_its_numbers_and_with_how_it_is_drawn(monkeypatch):
    first, second = (Chart(x=PLAIN, y=PLAIN, layers=(points((1, end)),)) for end in (1, 2))
    assert digest(first) == digest(replace(first)) != digest(second)
    before = digest(first)
    monkeypatch.setattr(figures, "drawn_by", lambda: "another way")
    assert digest(first) != before


def test_a_figure_to_keep_needs_no_other_file():
    kept = figure_file(Chart(x=PLAIN, y=PLAIN, layers=EVERYTHING), "a chart & its words")
    assert "<title>a chart &amp; its words</title>" in kept
    assert not re.search(r"<(?:script|link|img)[^>]*(?:src|href)=", kept)
    assert "Plotly.newPlot(" in kept
    assert "class=" not in kept.split("<svg")[1].split("</svg>")[0].replace('class="plot-marks"', "")


def test_a_picture_that_stands_alone_has_its_own_colours_and_letters():
    picture = svg(Chart(x=PLAIN, y=PLAIN, layers=EVERYTHING), width=600, is_standalone=True)
    assert "class=" not in picture.replace('class="plot-marks"', "")
    assert 'color="#0a5cb8"' in picture
    assert 'font-family="DejaVu Sans, sans-serif"' in picture


@pytest.mark.parametrize("symbol", ["dot", "ring", "diamond", "diamond-ring", "square", "star", "tick", "dash"])
def test_every_kind_of_mark_leaves_ink_in_picture_and_legend(symbol):
    """A path without an area that is only filled is not there: so were the floors on rooflines."""
    marks = ET.fromstring(drawn(points((5, 5), symbol=symbol))).iter()
    lines = [mark for mark in marks if mark.tag == "path" and re.fullmatch(r"M\S+ \S+L\S+ \S+", mark.get("d", ""))]
    assert all(mark.get("stroke") for mark in lines)


def test_texts_of_ticks_reach_neither_the_title_nor_the_edge():
    shares = Axis(title="fast_p@1", unit=Unit.SHARE, low=0.0, high=0.012)
    chart = Chart(x=Axis(unit=Unit.SHARE, low=0.0, high=1.0), y=shares, layers=EVERYTHING)
    texts = [each for each in ET.fromstring(svg(chart, width=600)).iter() if each.tag.endswith("text")]
    # Letters are about 7 px wide; the title is written upwards at x = 13 and takes 4 px to its right.
    assert min(float(each.get("x")) - 7 * len(each.text) for each in texts if each.get("text-anchor") == "end") > 17
    (last,) = (each for each in texts if each.text == "100 %")
    assert float(last.get("x")) + 7 * len("100 %") / 2 <= 600


def test_dates_lie_apart_however_long_ago_the_first_record_is():
    first = datetime(2026, 11, 24, 14, 58, tzinfo=UTC)
    for hours in range(1, 24 * 40, 7):
        chart = record_line([(first, "author", 1.2, 1.1, 1.3)], until=first + timedelta(hours=hours))
        texts = [each for each in ET.fromstring(svg(chart, width=380)).iter() if each.tag.endswith("text")]
        dates = [(float(each.get("x")), 3.5 * len(each.text)) for each in texts if re.match(r"\d\d \w{3} ", each.text)]
        # Letters are about 7 px wide.
        assert all(x + half <= y - other for (x, half), (y, other) in pairwise(dates)), (hours, dates)
        assert dates


def test_an_agents_steps_and_problems_are_whole_numbers():
    chart = agent_problems({"passing": [(0.0, 0.0), (1.0, 1.0)]}, x_title="Step")
    assert [text for _, text in chart.x.names] == [text for _, text in chart.y.names] == ["0", "1"]
    by_cost = agent_problems({"passing": [(0.25, 0.0), (0.5, 1.0)]}, x_title="Cost")
    assert by_cost.x.names == ()


def test_a_line_without_a_free_place_for_its_name_is_named_by_the_legend():
    ends = tuple(Point(x=x, y=5) for x in (0, 10))
    line = Line(name="limit", tone="text-muted", points=ends, label="the limit")
    crowd = Points(name="marks", tone="accent", symbol="dot", points=tuple(Point(x=x / 4, y=5) for x in range(41)))
    bare, crowded = (svg(Chart(x=PLAIN, y=PLAIN, layers=layers), width=540) for layers in ((line,), (line, crowd)))
    assert re.search(r"rotate\([^>]*>the limit</text>", bare)
    assert re.search(r'text-anchor="start"[^>]*>the limit</text>', crowded)
    assert crowded.count(">the limit<") == 1
