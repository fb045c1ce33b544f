"""Figures of models' runs: fast_p curves, what attempts ended as, and what an agent reached by step and cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from evaluator.contract import Verdict
from portal.charts.figures import base_layout

_LINES = (
    ("accent", "solid"),
    ("danger", "dash"),
    ("success", "dot"),
    ("warning", "dashdot"),
    ("code-type", "longdash"),
)
"""Tone and dash of each curve: two curves differ in both, so colour alone never tells them apart."""


@dataclass(frozen=True, kw_only=True)
class FailureMode:
    """Verdicts that readers take for one way to end; `tone` and `pattern` are how a bar shows it."""

    title: str
    verdicts: tuple[Verdict, ...]
    tone: str
    pattern: str


FAILURE_MODES = (
    FailureMode(title="Passed", verdicts=(Verdict.PASSED,), tone="success", pattern=""),
    FailureMode(
        title="Wrong values",
        verdicts=(Verdict.WRONG_RESULT, Verdict.NOT_FINITE, Verdict.NONDETERMINISTIC, Verdict.INPUT_MUTATED),
        tone="danger",
        pattern="/",
    ),
    FailureMode(
        title="Wrong shape or incomplete",
        verdicts=(Verdict.WRONG_SHAPE, Verdict.INCOMPLETE_OUTPUT, Verdict.STALE_OUTPUT),
        tone="code-function",
        pattern="x",
    ),
    FailureMode(
        title="Does not build or import",
        verdicts=(Verdict.COMPILE_ERROR, Verdict.IMPORT_ERROR, Verdict.LIMIT_EXCEEDED),
        tone="warning",
        pattern="\\",
    ),
    FailureMode(
        title="Fails while running",
        verdicts=(Verdict.RUNTIME_ERROR, Verdict.CRASHED, Verdict.OUT_OF_MEMORY, Verdict.EARLY_EXIT),
        tone="code-meta",
        pattern="-",
    ),
    FailureMode(title="Hangs", verdicts=(Verdict.DEADLOCK, Verdict.TIMEOUT), tone="accent", pattern="|"),
    FailureMode(
        title="Refused by the rules",
        verdicts=(
            Verdict.FORBIDDEN,
            Verdict.TAMPERED,
            Verdict.TIMING_INCONSISTENT,
            Verdict.BELOW_FLOOR,
            Verdict.TRAFFIC_BELOW_MINIMUM,
        ),
        tone="code-keyword",
        pattern="+",
    ),
    FailureMode(
        title="Not judged",
        verdicts=(Verdict.UNSUPPORTED, Verdict.JUDGE_ERROR, Verdict.JUDGE_FAILURE, Verdict.BASELINE_UNSTABLE),
        tone="text-faint",
        pattern=".",
    ),
)
PENDING = "Pending"
"""Samples that wait for their verdict."""
UNRANKED = "No ranked result"
"""Samples whose attempts were only checked, or cancelled."""
MISSING = "No attempt"
"""Samples that the run declares and never made."""
ENDINGS = (*(mode.title for mode in FAILURE_MODES), PENDING, UNRANKED, MISSING)
"""Every way a sample can end, in the order in which it is shown."""


def by_mode(samples: Mapping[str, int]) -> dict[str, int]:
    """How many samples ended in each of `ENDINGS`, from samples by verdict or by the three that are none."""
    modes = {mode.title: tuple(verdict.value for verdict in mode.verdicts) for mode in FAILURE_MODES}
    return {title: sum(samples.get(key, 0) for key in modes.get(title, (title,))) for title in ENDINGS}


def fast_curves(
    curves: Sequence[tuple[str, Sequence[tuple[float, float]]]], *, chosen: float | None = None, address: str = ""
) -> go.Figure:
    """fast_p over p for several runs; at p = 0 a curve is correct@1.

    Args:
        curves: a name, and (p, share of problems) in the order of p, for each run.
        chosen: the p that the page's board is ordered by, marked by a line; None where it has none.
        address: where a click on a curve leads, with the p clicked at the end; empty where it leads nowhere.
    """
    top = max((share for _, points in curves for _, share in points), default=0.0)
    traces = [] if chosen is None else [_chosen_p(chosen, top=top)]
    traces += [
        go.Scatter(
            x=[p for p, _ in points],
            y=[share for _, share in points],
            mode="lines",
            name=name,
            line={"shape": "hv", "width": 2, "dash": _LINES[number % len(_LINES)][1]},
            hovertemplate="p = %{x}: %{y:.1%}<extra>%{fullData.name}</extra>",
            customdata=[[f"{address}{p}"] for p, _ in points] if address else None,
            meta={"tone": _LINES[number % len(_LINES)][0]},
        )
        for number, (name, points) in enumerate(curves)
    ]
    figure = go.Figure(data=traces, layout=base_layout(x_title="p: speedup over the reference", y_title="fast_p@1"))
    figure.update_yaxes(rangemode="tozero", tickformat=".1~%")
    figure.update_xaxes(range=[0, 3])
    return figure


def _chosen_p(p: float, *, top: float) -> go.Scatter:
    return go.Scatter(
        x=[p, p],
        y=[0, top or 1],
        mode="lines",
        name=f"p = {p:g}",
        line={"dash": "dot", "width": 1.5},
        hoverinfo="name",
        meta={"tone": "text-muted"},
    )


def failure_bars(rows: Sequence[tuple[str, Mapping[str, int]]]) -> go.Figure:
    """What the samples of each run ended as, as shares of all its samples.

    Args:
        rows: a name, and samples as `by_mode` takes them, for each run; the first comes to the top.
    """
    counted = [(name, by_mode(samples), max(1, sum(samples.values()))) for name, samples in reversed(rows)]
    shown = [(mode.title, mode.tone, mode.pattern) for mode in FAILURE_MODES]
    shown += [(PENDING, "text-muted", "/"), (UNRANKED, "text-faint", "x"), (MISSING, "border-strong", "")]
    traces = [
        go.Bar(
            orientation="h",
            name=title,
            y=[name for name, _, _ in counted],
            x=[modes.get(title, 0) / total for _, modes, total in counted],
            customdata=[[None, modes.get(title, 0)] for _, modes, _ in counted],
            marker={
                "pattern": {"shape": pattern, "fillmode": "overlay", "fgcolor": "rgba(255,255,255,0.6)", "size": 6}
            },
            hovertemplate="%{customdata[1]} samples, %{x:.1%}<extra>%{fullData.name}</extra>",
            meta={"tone": tone},
        )
        for title, tone, pattern in shown
        if any(modes.get(title, 0) for _, modes, _ in counted)
    ]
    layout = base_layout(x_title="Share of samples", y_title="", height=180 + 34 * len(rows))
    figure = go.Figure(data=traces, layout=layout)
    figure.update_layout(barmode="stack", bargap=0.35, legend={"traceorder": "normal"})
    figure.update_xaxes(tickformat=".0%", range=[0, 1])
    return figure


Line = Sequence[tuple[float, float]]
"""(x, y), in the order of x."""


def agent_problems(lines: Mapping[str, Line], *, x_title: str) -> go.Figure:
    """How many problems an agent has a right program for, and a faster one, against steps or cost.

    Args:
        lines: problems so far by step or cost, for each of what is counted.
        x_title: what x is.
    """
    figure = _agent_lines(lines, x_title=x_title, y_title="Problems")
    figure.update_yaxes(rangemode="tozero")
    return figure


def agent_speedups(lines: Mapping[str, Line], *, x_title: str) -> go.Figure:
    """The geometric mean of an agent's best speedups so far, against steps or cost.

    Args:
        lines: the mean by step or cost, for each choice of problems that it is over.
        x_title: what x is.
    """
    figure = _agent_lines(lines, x_title=x_title, y_title="Geometric mean of best speedups")
    figure.update_yaxes(tickformat=".3~f", ticksuffix="x")
    return figure


def _agent_lines(lines: Mapping[str, Line], *, x_title: str, y_title: str) -> go.Figure:
    traces = [
        go.Scatter(
            x=[x for x, _ in points],
            y=[y for _, y in points],
            mode="lines+markers",
            name=name,
            line={"shape": "hv", "dash": dash},
            meta={"tone": tone},
        )
        for (name, points), (tone, dash) in zip(lines.items(), _LINES, strict=False)
    ]
    figure = go.Figure(data=traces, layout=base_layout(x_title=x_title, y_title=y_title))
    figure.update_xaxes(rangemode="tozero")
    return figure
