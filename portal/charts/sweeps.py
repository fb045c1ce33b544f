"""Time of a call over a problem's size, or bus bandwidth: entries beside the reference, under what the links can do."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from portal.charts.chart import Axis, Chart, Layer, Line, Point, Scale, Unit, Whisker, marked_line
from portal.charts.scales import number

LOOKS = (("accent", "dot", "solid"), ("success", "square", "dash"), ("warning", "diamond", "dashdot"))
"""Tone, symbol and dash of each entry: two lines differ in all three, so they never differ by colour alone."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """One program: (value, microseconds, least, most) at each point, the smallest value first."""

    name: str
    points: tuple[tuple[int, float, float, float], ...]


def over_size(
    reference: Series,
    entries: Sequence[Series],
    *,
    title: str,
    value_name: Callable[[int], str],
    floors: Mapping[int, float],
    moved: Mapping[int, float] | None = None,
    levels: Sequence[tuple[str, float]] = (),
) -> Chart:
    """Time over size on logarithmic axes; with `moved` bus bandwidth in its place.

    Args:
        reference: drawn without intervals.
        entries: at most as many as there are `LOOKS`.
        title: what the axis shows.
        value_name: how a value of the axis is written.
        floors: microseconds by value; drawn under times alone.
        moved: the bytes that over a time are the bus bandwidth, by value.
        levels: what bounds bandwidths: a name and bytes a second, drawn across.
    """

    def height(value: int, us: float) -> float:
        return us if moved is None else moved[value] / us / 1e3

    def program(series: Series, tone: str, symbol: str, dash: str) -> list[Layer]:
        said = [
            Point(x=value, y=height(value, us), tip=f"{series.name}, {value_name(value)}\n{text(value, us)}")
            for value, us, _, _ in series.points
        ]
        spans = [
            Whisker(tone=tone, x=value, y=height(value, us), low=min(ends), high=max(ends))
            for value, us, *times in series.points
            if len(set(ends := [height(value, each) for each in times])) > 1
        ]
        return [*spans, *marked_line(series.name, said, tone=tone, symbol=symbol, dash=dash)]

    def text(value: int, us: float) -> str:
        return f"{number(us)} µs" + ("" if moved is None else f", {height(value, us):.3g} GB/s")

    reach = sorted({value for series in (reference, *entries) for value, *_ in series.points})
    layers: list[Layer] = []
    if moved is None and floors:
        low = tuple(Point(x=value, y=us) for value, us in sorted(floors.items()))
        layers.append(Line(name="floor", tone="text-muted", points=low, dash="dot"))
    if moved is not None:
        for name, rate in levels:
            ends = tuple(Point(x=end, y=rate / 1e9) for end in (reach[0], reach[-1]))
            layers.append(Line(name=name, tone="text-muted", points=ends, dash="dot", label=name))
    layers += program(reference, "text-muted", "ring", "longdash")
    for series, look in zip(entries, LOOKS, strict=False):
        layers += program(series, *look)
    y = Axis(title="Time of a call", scale=Scale.LOG, unit=Unit.MICROSECONDS)
    return Chart(
        x=Axis(title=title, scale=Scale.LOG, names=tuple((float(value), value_name(value)) for value in reach)),
        y=y if moved is None else Axis(title="Bus bandwidth, GB/s", scale=Scale.LOG),
        layers=tuple(layers),
        height=340,
        is_wide=True,
    )
