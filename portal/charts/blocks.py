"""The ratios of an evaluation's A B B A blocks, with the score and its interval."""

from evaluator.contract import Timing
from portal.charts.chart import Axis, Band, Chart, Point, Points, Unit, level
from portal.charts.scales import number


def block_ratios(timing: Timing) -> Chart:
    """Speedup over the reference per block (1 is the reference's own time), the score and its interval.

    Args:
        timing: a passed evaluation's timing; its blocks already combine the sizes.
    """
    low, high = 0.5, len(timing.blocks) + 0.5
    points = tuple(
        Point(x=n, y=ratio, tip=f"block {n}: {number(ratio)} times as fast")
        for n, ratio in enumerate(timing.blocks, start=1)
    )
    layers = (
        Band(name="interval of the score", tone="accent", low=timing.low, high=timing.high),
        level(1.0, low, high, name="reference"),
        level(timing.score, low, high, name="score", tone="accent", dash="solid"),
        Points(name="one block", tone="accent", symbol="dot", points=points),
    )
    x = Axis(title="Block", low=low, high=high, has_grid=False)
    return Chart(x=x, y=Axis(title="Speedup over the reference", unit=Unit.SPEEDUP), layers=layers)
