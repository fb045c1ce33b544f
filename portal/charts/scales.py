"""Axes as numbers: their ends, the position of a value, and readable ticks."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from portal.charts.chart import Axis, Scale, Unit

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_DAY_S = 86_400.0
_MINUTES = (1, 5, 15, 30, 60, 180, 360, 720, 1440)
_DAYS = (1, 2, 7, 14, 30, 61, 122, 365)
_MOST_LABELS = 8


@dataclass(frozen=True, kw_only=True)
class Ruler:
    """An axis laid out between two positions of the picture, in pixels."""

    axis: Axis
    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The position of `value`, also beyond the ends."""
        low, high, value = (self._measure(each) for each in (self.low, self.high, value))
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def holds(self, value: float) -> bool:
        return min(self.low, self.high) <= value <= max(self.low, self.high)

    def nearest(self, value: float) -> float:
        """`value`, or the nearer end if it is beyond."""
        return min(max(value, min(self.low, self.high)), max(self.low, self.high))

    def clamped(self, value: float) -> float:
        """The position of `value`, or of the nearer end if it is beyond."""
        return self.at(self.nearest(value))

    def _measure(self, value: float) -> float:
        # On a logarithmic axis nothing is at 0: it lies far beyond every end.
        return math.log10(max(value, 1e-300)) if self.axis.scale is Scale.LOG else value


def ends(axis: Axis, values: Iterable[float]) -> tuple[float, float]:
    """Where an axis begins and ends: as it says, else around `values` with a little room."""
    usable = [value for value in values if axis.scale is not Scale.LOG or value > 0]
    low, high = _around(axis, usable)
    return (low if axis.low is None else axis.low), (high if axis.high is None else axis.high)


def _around(axis: Axis, values: Sequence[float]) -> tuple[float, float]:
    if axis.scale is Scale.CATEGORY:
        return -0.5, len(axis.names) - 0.5
    low, high = min(values, default=1.0), max(values, default=1.0)
    if axis.scale is Scale.LOG:
        room = (high / low) ** 0.04 if high > low else 2.0
        return low / room, high * room
    room = 0.05 * (high - low) or abs(high) * 0.05 or 1.0
    return low - room, high + room


def ticks(ruler: Ruler, *, most: int = _MOST_LABELS) -> list[tuple[float, str]]:
    """Values and what is written at them, at most about `most` of them."""
    if ruler.axis.names:
        return [(value, text) for value, text in ruler.axis.names if ruler.holds(value)]
    if ruler.axis.scale is Scale.TIME:
        return _time_ticks(ruler, most)
    values = _log_values(ruler, most) if ruler.axis.scale is Scale.LOG else _linear_values(ruler, most)
    write = _WRITERS[ruler.axis.unit]
    return [(value, write(value)) for value in values]


def _linear_values(ruler: Ruler, most: int) -> list[float]:
    span = ruler.high - ruler.low
    raw = span / max(1, most - 1)
    power = 10 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in _STEPS if power * factor >= raw * 0.999)
    first = math.ceil(ruler.low / step - 1e-9)
    return [round(step * number, 10) for number in range(first, math.floor(ruler.high / step + 1e-9) + 1)]


def _log_values(ruler: Ruler, most: int) -> list[float]:
    first, last = math.ceil(math.log10(ruler.low) - 1e-9), math.floor(math.log10(ruler.high) + 1e-9)
    decades = last - first + 1
    if decades >= 3:
        every = -(-decades // most)
        return [10.0**power for power in range(first, last + 1) if power % every == 0]
    factors = (1, 2, 5) if math.log10(ruler.high / ruler.low) > 0.7 else (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)
    found = [factor * 10.0**power for power in range(first - 1, last + 2) for factor in factors]
    inside = [value for value in found if ruler.low <= value <= ruler.high]
    return inside[:: max(1, -(-len(inside) // most))] or _linear_values(ruler, 4)


def _time_ticks(ruler: Ruler, most: int) -> list[tuple[float, str]]:
    wanted = (ruler.high - ruler.low) / _DAY_S / max(1, most - 1)
    if wanted < 1:
        step, pattern = next(each for each in _MINUTES if each >= wanted * 1440 - 1e-6) * 60.0, "%d %b %H:%M"
    else:
        step, pattern = next((day for day in _DAYS if day >= wanted), 730) * _DAY_S, "%d %b %Y"
    first = math.ceil(ruler.low / step) * step
    count = math.floor((ruler.high - first) / step) + 1
    values = [first + step * number for number in range(max(0, count))]
    return [(value, f"{datetime.fromtimestamp(value, UTC):{pattern}}") for value in values]


def number(value: float) -> str:
    """A number as short as it can be read, with k, M, G, ... from a thousand on."""
    magnitude = abs(value)
    for limit, divisor, suffix in ((1e3, 1, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M"), (1e12, 1e9, "G")):
        if magnitude < limit:
            return f"{value / divisor:.4g}{suffix}"
    return f"{value / 1e12:.4g}T" if magnitude < 1e15 else f"{value / 1e15:.4g}P"


def _microseconds(value: float) -> str:
    if value < 1e3:
        return f"{value:.4g} µs"
    return f"{value / 1e3:.4g} ms" if value < 1e6 else f"{value / 1e6:.4g} s"


_WRITERS: dict[Unit, Callable[[float], str]] = {
    Unit.NUMBER: number,
    Unit.SPEEDUP: lambda value: f"{value:.4g}×",  # noqa: RUF001 - the multiplication sign is meant
    Unit.SHARE: lambda value: f"{100 * value:.4g} %",
    Unit.MICROSECONDS: _microseconds,
}
