"""Puts charts on pages."""

from dataclasses import dataclass
from functools import lru_cache
from html import unescape

from django import template
from django.utils.html import format_html, json_script
from django.utils.safestring import SafeString, mark_safe

from portal.charts.chart import Chart
from portal.charts.drawing import svg
from portal.charts.interactive import figure_data

register = template.Library()

PHONE_PX = 380
COLUMN_PX = 540
PAGE_PX = 1140
DRAWN_KEPT = 128
"""How many charts a process keeps as they were drawn, the last used ones; a large one takes about 200 KiB."""


@dataclass(frozen=True, kw_only=True)
class _Drawn:
    """A chart as HTML: the picture for wide places, the one for narrow places, and Plotly's figure as data."""

    wide: SafeString
    narrow: SafeString
    figure: SafeString


@register.simple_block_tag
def plot(content: str, chart: Chart, name: str) -> SafeString:
    """`{% plot chart "name" %}what it shows{% endplot %}`: the chart for wide and narrow places, of which one shows.

    The same chart as Plotly's figure follows as data.
    """
    label = unescape(content).strip()
    drawn = _drawn(chart, name, label)
    kind = "plot plot--wide" if chart.is_wide else "plot"
    return format_html(
        '<figure class="{}" data-plot="{}" data-label="{}"{}><div class="plot-still"><div class="plot-wide">{}</div>'
        '<div class="plot-narrow">{}</div></div></figure>{}',
        kind,
        name,
        label,
        mark_safe(" data-plot-window") if chart.can_zoom else "",
        drawn.wide,
        drawn.narrow,
        drawn.figure,
    )


@lru_cache(maxsize=DRAWN_KEPT)
def _drawn(chart: Chart, name: str, label: str) -> _Drawn:
    """The chart's pictures and data: a chart is a value, so an equal one looks the same and is not drawn again."""
    wide = svg(chart, width=PAGE_PX if chart.is_wide else COLUMN_PX, label=label)
    narrow = svg(chart, width=PHONE_PX, label=label)
    return _Drawn(
        wide=mark_safe(wide),  # noqa: S308 - escaped where it is drawn
        narrow=mark_safe(narrow),  # noqa: S308 - escaped where it is drawn
        figure=json_script(figure_data(chart), name),
    )
