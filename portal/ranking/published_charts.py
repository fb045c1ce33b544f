"""Published figures as charts."""

from collections.abc import Sequence

from portal.charts.chart import Axis, Bar, Bars, Chart, Scale, Unit
from portal.charts.runs import curves, stacked_bars
from portal.ranking.published import PROBLEMS, Figure

LOOKS = (
    ("Correct", "success", ""),
    ("Output mismatch", "danger", "/"),
    ("Tensor shape error", "code-function", "x"),
    ("nvcc/syntax errors", "warning", "\\"),
    ("Attribute / name / API typo", "code-keyword", "+"),
    ("Runtime error", "code-meta", "-"),
    ("Deadlock", "accent", "|"),
)
"""Title, tone and pattern of the published classes; as our own failure modes have them, where they mean the same."""

COUNTS = (("solved", "success", ""), ("solved faster than the reference", "accent", "/"))


def counts(rows: Sequence[tuple[str, tuple[float, float]]]) -> Chart:
    """How many problems are solved, and solved faster, as two lying bars for each row; the first comes to the top."""
    names = tuple((float(len(rows) - 1 - place), name) for place, (name, _) in enumerate(rows))
    layers = []
    for kind, (title, tone, pattern) in enumerate(COUNTS):
        look = {"start": 0.0, "offset": 0.2 - 0.4 * kind, "width": 0.36}
        bars = tuple(
            Bar(at=len(rows) - 1 - place, end=pair[kind], tip=f"{name}: {pair[kind]:g} {title}", **look)
            for place, (name, pair) in enumerate(rows)
        )
        layers.append(Bars(name=title, tone=tone, pattern=pattern, is_lying=True, bars=bars))
    x, y = Axis(title=f"Problems of {PROBLEMS}", low=0.0), Axis(scale=Scale.CATEGORY, names=names)
    return Chart(x=x, y=y, layers=tuple(layers), height=90 + 46 * len(rows))


def failures(figure: Figure) -> Chart:
    """What each model's programs ended as."""
    rows = [(model, {title: int(count) for title, count in figure.of(model).items()}) for model in figure.models]
    return stacked_bars(rows, LOOKS)


def fast_p(figure: Figure) -> Chart:
    """fast_p over p, as read off the picture."""
    lines = {model: [(float(p), share) for p, share in figure.of(model).items()] for model in figure.models}
    x = Axis(title="p: speedup over the reference", low=0.0, high=3.0)
    return curves(lines, x=x, y=Axis(title="fast_p@1", unit=Unit.SHARE, low=0.0), is_wide=True)


def sweep(figure: Figure) -> Chart:
    """Speedup of one published program over a size."""
    [model], [axis] = figure.models, figure.groups
    points = [(float(at), speedup) for at, speedup in figure.of(model, axis).items()]
    named = tuple((at, f"{at:g}") for at, _ in points)
    lines = {model: points, "reference": [(points[0][0], 1.0), (points[-1][0], 1.0)]}
    x = Axis(title=axis, scale=Scale.LOG, names=named)
    return curves(lines, x=x, y=Axis(title="Speedup over the reference", unit=Unit.SPEEDUP, low=0.0))


def one_call(figure: Figure) -> Chart:
    """A call's time beside its roofline."""
    [group] = figure.groups
    times = list(figure.of("", group).items())
    bars = tuple(
        Bar(at=len(times) - 1 - place, start=0.0, end=us, tip=f"{name}: {us:g} µs")
        for place, (name, us) in enumerate(times)
    )
    names = tuple((float(len(times) - 1 - place), name) for place, (name, _) in enumerate(times))
    layer = Bars(name=group, tone="accent", bars=bars, is_lying=True)
    x = Axis(title="Time of a call", unit=Unit.MICROSECONDS, low=0.0)
    return Chart(x=x, y=Axis(scale=Scale.CATEGORY, names=names), layers=(layer,), height=180, is_wide=True)
