"""Time of a call over a problem's size, or bus bandwidth: entries beside the reference, under what the links can do."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from portal.charts.chart import Axis, Chart, Layer, Line, Point, Scale, Unit, Whisker, marked_line
from portal.charts.scales import number

LOOKS = (("accent", "dot", "solid"), ("success", "square", "dash"), ("warning", "diamond", "dashdot"))
"""Tone, symbol and dash of each entry: two lines differ in all three, so they never differ by colour alone."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """One program: (value, microseconds, least, most) at each point, the smallest value first.

    `moved` are the bytes that over a time are the bus bandwidth, by value, where that is to be shown.
    """

    name: str
    points: tuple[tuple[int, float, float, float], ...]
    moved: Mapping[int, float] | None = None

    def height(self, value: int, us: float) -> float:
        """What is drawn of a time: bus bandwidth in GB/s, or the time itself."""
        return us if self.moved is None else self.moved[value] / us / 1e3


def over_size(
    programs: Sequence[Series],
    *,
    title: str,
    value_name: Callable[[int], str],
    reference: Series | None = None,
    floors: Mapping[int, float] = MappingProxyType({}),
    levels: Sequence[tuple[str, float]] = (),
) -> Chart:
    """Time over size on logarithmic axes; of programs that have `moved` bus bandwidth in its place.

    Args:
        programs: at most as many as there are `LOOKS`.
        title: what the axis shows.
        value_name: how a value of the axis is written.
        reference: drawn below them.
        floors: microseconds by value; drawn under times alone.
        levels: what bounds bandwidths: a name and bytes a second, drawn across.
    """
    looks = [(reference, ("text-muted", "ring", "longdash"))] if reference else []
    looks += zip(programs, LOOKS, strict=False)
    by_bandwidth = any(each.moved is not None for each in programs)
    reach = sorted({value for series, _ in looks for value, *_ in series.points})
    layers: list[Layer] = []
    if floors and not by_bandwidth:
        low = tuple(Point(x=value, y=us) for value, us in sorted(floors.items()))
        layers.append(Line(name="floor", tone="text-muted", points=low, dash="dot"))
    for name, rate in levels if by_bandwidth else ():
        ends = tuple(Point(x=end, y=rate / 1e9) for end in (reach[0], reach[-1]))
        layers.append(Line(name=name, tone="text-muted", points=ends, dash="dot", label=name))
    for series, look in looks:
        layers += _program(series, value_name, *look)
    y = Axis(title="Time of a call", scale=Scale.LOG, unit=Unit.MICROSECONDS)
    return Chart(
        x=Axis(title=title, scale=Scale.LOG, names=tuple((float(value), value_name(value)) for value in reach)),
        y=Axis(title="Bus bandwidth, GB/s", scale=Scale.LOG) if by_bandwidth else y,
        layers=tuple(layers),
        height=340,
        is_wide=True,
    )


def _program(series: Series, value_name: Callable[[int], str], tone: str, symbol: str, dash: str) -> list[Layer]:
    said, spans = [], []
    for value, us, *times in series.points:
        y, ends = series.height(value, us), [series.height(value, each) for each in times]
        tip = f"{series.name}, {value_name(value)}\n{number(us)} µs" + (f", {y:.3g} GB/s" if series.moved else "")
        said.append(Point(x=value, y=y, tip=tip))
        if ends[0] != ends[1]:
            spans.append(Whisker(tone=tone, x=value, y=y, low=min(ends), high=max(ends)))
    return [*spans, *marked_line(series.name, said, tone=tone, symbol=symbol, dash=dash)]
