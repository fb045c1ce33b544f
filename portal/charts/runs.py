"""Figures of models' runs: fast_p curves, what attempts ended as, and what an agent reached by step and cost."""

from collections.abc import Mapping, Sequence

from portal.charts.chart import (
    Axis,
    Bar,
    Bars,
    Chart,
    Layer,
    Line,
    Point,
    Points,
    Scale,
    Unit,
    Whisker,
    marked_line,
    number,
)

LOOKS = (
    ("accent", "solid"),
    ("danger", "dash"),
    ("success", "dot"),
    ("warning", "dashdot"),
    ("code-type", "longdash"),
    ("code-keyword", "solid"),
    ("code-function", "dash"),
    ("text-muted", "dot"),
)
"""Tone and dash of each line: two lines differ in both, so they never differ by colour alone."""


def fast_curves(
    curves: Sequence[tuple[str, Sequence[tuple[float, float]]]], *, chosen: float | None = None, address: str = ""
) -> Chart:
    """fast_p over p for several runs; at p = 0 a curve is correct@1.

    Args:
        curves: a name, and (p, share of problems) in the order of p, for each run.
        chosen: the p that the page's board is ordered by, marked by a line; None where it has none.
        address: where a click on a curve leads, with the p clicked at the end; empty where it leads nowhere.
    """
    top = max((share for _, points in curves for _, share in points), default=0.0) or 1.0
    layers: list[Layer] = [] if chosen is None else [_chosen_p(chosen, top=top)]
    layers += [
        Line(
            name=name,
            tone=LOOKS[place % len(LOOKS)][0],
            dash=LOOKS[place % len(LOOKS)][1],
            points=_steps(name, points, address),
            width=2,
            is_step=True,
        )
        for place, (name, points) in enumerate(curves)
    ]
    x = Axis(title="p: speedup over the reference", low=0.0, high=_LAST_P)
    y = Axis(title="fast_p@1", unit=Unit.SHARE, low=0.0, high=min(1.0, top * 1.06))
    return Chart(x=x, y=y, layers=tuple(layers), is_wide=True)


_LAST_P = 3.0
"""Where the curves end on the page; the tables go on."""


def _steps(name: str, points: Sequence[tuple[float, float]], address: str) -> tuple[Point, ...]:
    """The points at which a curve steps down, and its end at the right edge."""
    shown = tuple(
        Point(x=p, y=share, tip=f"{name}\np = {p:g}: {share:.1%}", href=f"{address}{p}" if address else "")
        for p, share in points
        if p <= _LAST_P
    )
    return (*shown, Point(x=_LAST_P, y=shown[-1].y)) if shown and shown[-1].x < _LAST_P else shown


def _chosen_p(p: float, *, top: float) -> Line:
    return Line(name=f"p = {p:g}", tone="text-muted", points=(Point(x=p, y=0.0), Point(x=p, y=top)), dash="dot")


_BAR_PX = 34


def stacked_bars(rows: Sequence[tuple[str, Mapping[str, int]]], looks: Sequence[tuple[str, str, str]]) -> Chart:
    """Shares of samples as one lying bar for each row.

    Args:
        rows: a name, and samples by title, for each row; the first comes to the top.
        looks: title, tone and pattern of each part, in the order in which they follow one another.
    """
    counted = [(counts, max(1, sum(counts.values()))) for _, counts in rows]
    layers = []
    starts = [0.0] * len(rows)
    for title, tone, pattern in looks:
        bars = []
        for place, (counts, total) in enumerate(counted):
            end = starts[place] + counts.get(title, 0) / total
            if end > starts[place]:
                tip = f"{title}: {counts[title]} of {total} samples, {counts[title] / total:.1%}"
                bars.append(Bar(at=len(rows) - 1 - place, start=starts[place], end=end, tip=tip))
            starts[place] = end
        if bars:
            layers.append(Bars(name=title, tone=tone, pattern=pattern, bars=tuple(bars), is_lying=True))
    names = tuple((float(len(rows) - 1 - place), name[:_NAME_LENGTH]) for place, (name, _) in enumerate(rows))
    x = Axis(title="Share of samples", unit=Unit.SHARE, low=0.0, high=1.0)
    height = 130 + _BAR_PX * len(rows)
    return Chart(x=x, y=Axis(scale=Scale.CATEGORY, names=names), layers=tuple(layers), height=height, is_wide=True)


_NAME_LENGTH = 34

Curve = Sequence[tuple[float, float]]
"""(x, y), in the order of x."""


def agent_problems(lines: Mapping[str, Curve], *, x_title: str) -> Chart:
    """How many problems an agent has a correct program for, and a faster one, against steps or cost.

    Args:
        lines: problems so far by step or cost, for each of what is counted.
        x_title: what x is.
    """
    counts = [value for points in lines.values() for _, value in points]
    return _agent_lines(lines, x_title=x_title, y=Axis(title="Problems", low=0.0, names=_whole(counts)))


def agent_speedups(lines: Mapping[str, Curve], *, x_title: str) -> Chart:
    """The geometric mean of an agent's best speedups so far, against steps or cost.

    Args:
        lines: the mean by step or cost, for each choice of problems that it is over.
        x_title: what x is.
    """
    return _agent_lines(lines, x_title=x_title, y=Axis(title="Geometric mean of best speedups", unit=Unit.SPEEDUP))


def _agent_lines(lines: Mapping[str, Curve], *, x_title: str, y: Axis) -> Chart:
    steps = [x for points in lines.values() for x, _ in points]
    return curves(lines, x=Axis(title=x_title, low=0.0, names=_whole(steps)), y=y, is_step=True)


def curves(lines: Mapping[str, Curve], *, x: Axis, y: Axis, is_step: bool = False, is_wide: bool = False) -> Chart:
    """Lines through marked points, each of its own tone and dash; a step keeps its value until the next point."""
    layers: list[Layer] = []
    for (name, points), (tone, dash) in zip(lines.items(), LOOKS, strict=False):
        said = [Point(x=at, y=value, tip=f"{name}\n{at:g}: {value:.4g}") for at, value in points]
        layers += marked_line(name, said, tone=tone, size=3, dash=dash, is_step=is_step)
    return Chart(x=x, y=y, layers=tuple(layers), is_wide=is_wide)


_SYMBOLS = ("dot", "square", "diamond", "diamond-ring")


def over_ranks(machines: Sequence[tuple[str, Curve, Sequence[tuple[float, float, float, float]]]], *, y: Axis) -> Chart:
    """Times over ranks, a series per machine, beside one another where they have the same number of ranks.

    Args:
        machines: the name, (ranks, time) of the reference, and (ranks, time, low, high) of the best entries; at most as
            many as there are LOOKS.
        y: of the times.
    """
    layers: list[Layer] = []
    for place, ((name, references, best), (tone, dash)) in enumerate(zip(machines, LOOKS, strict=False)):
        aside = 1.04**place
        said = [Point(x=n * aside, y=us, tip=f"reference, {n:g} x {name}\n{number(us)} µs") for n, us in references]
        layers += marked_line(f"reference, {name}", said, tone=tone, symbol=_SYMBOLS[place % len(_SYMBOLS)], dash=dash)
        layers += [Whisker(tone=tone, x=n * aside, y=us, low=low, high=high) for n, us, low, high in best]
        stars = tuple(
            Point(x=n * aside, y=us, tip=f"best entry, {n:g} x {name}\n{number(low)} to {number(high)} µs")
            for n, us, low, high in best
        )
        if stars:
            layers.append(Points(name=f"best entry, {name}", tone=tone, symbol="star", size=6, points=stars))
    return Chart(x=RANKS, y=y, layers=tuple(layers), is_wide=True)


RANKS = Axis(title="Ranks", scale=Scale.LOG, low=1.8, high=10.5, names=((2, "2"), (4, "4"), (8, "8")))
_FEW = 8


def _whole(values: Sequence[float]) -> tuple[tuple[float, str], ...]:
    """Ticks of a few whole numbers: half a step does not exist. Nothing where an axis finds its own."""
    most = max(values, default=0.0)
    if most > _FEW or any(value != int(value) for value in values):
        return ()
    return tuple((float(number), f"{number}") for number in range(int(most) + 1))
