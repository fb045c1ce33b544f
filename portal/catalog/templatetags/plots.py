"""Puts charts on pages."""

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


@register.simple_block_tag
def plot(content: str, chart: Chart, name: str) -> SafeString:
    """`{% plot chart "name" %}what it shows{% endplot %}`: the chart for wide and narrow screens, of which one shows.

    The same chart as Plotly's figure follows as data.
    """
    label = unescape(content).strip()
    wide = svg(chart, width=PAGE_PX if chart.is_wide else COLUMN_PX, label=label)
    narrow = svg(chart, width=PHONE_PX, label=label)
    kind = "plot plot--wide" if chart.is_wide else "plot"
    return format_html(
        '<figure class="{}" data-plot="{}" data-label="{}"{}><div class="plot-still"><div class="plot-wide">{}</div>'
        '<div class="plot-narrow">{}</div></div></figure>{}',
        kind,
        name,
        label,
        mark_safe(" data-plot-window") if chart.can_zoom else "",
        mark_safe(wide),  # noqa: S308 - escaped where it is drawn
        mark_safe(narrow),  # noqa: S308 - escaped where it is drawn
        json_script(figure_data(chart), name),
    )
