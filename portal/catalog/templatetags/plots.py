"""Puts charts on pages."""

from functools import lru_cache
from html import unescape

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from portal.charts.chart import Chart
from portal.charts.drawing import PHONE_PX, svg, wide_px
from portal.charts.figures import ASK, FigureAsked, digest

register = template.Library()

DRAWN_KEPT = 128
"""How many charts a process keeps as they were drawn, the last used ones; a large one takes about 100 KiB."""


@register.simple_block_tag(takes_context=True)
def plot(context: template.Context, content: str, chart: Chart, name: str) -> SafeString:
    """`{% plot chart "name" %}what it shows{% endplot %}`: the chart for wide and narrow screens, of which one shows.

    Its Plotly figure stands at an address of its own: the page's with the figure's name and digest. Who may read the
    page may read it, and nobody else.

    Raises:
        FigureAsked: the request is for this figure, so that the rest of the page is not needed.
    """
    label = unescape(content).strip()
    request = context["request"]
    if request.GET.get(ASK) == name:
        raise FigureAsked(chart, label)
    wide, narrow, known = _drawn(chart, label)
    query = request.GET.copy()
    query[ASK], query["digest"] = name, known
    address = f"{request.path}?{query.urlencode()}"
    kind = "plot plot--wide" if chart.is_wide else "plot"
    return format_html(
        '<figure class="{}" id="{}" data-plot="{}" data-label="{}"{}><div class="plot-still"><div class="plot-wide">{}'
        '</div><div class="plot-narrow">{}</div></div><a class="plot-file" href="{}&amp;as=html">Keep as a file'
        '<span class="visually-hidden">: {}</span></a></figure>',
        kind,
        name,
        address,
        label,
        mark_safe(" data-plot-window") if chart.can_zoom else "",
        wide,
        narrow,
        address,
        label,
    )


@lru_cache(maxsize=DRAWN_KEPT)
def _drawn(chart: Chart, label: str) -> tuple[SafeString, SafeString, str]:
    """The chart as HTML, for wide places and for narrow ones, and its digest.

    A chart is a value, so an equal one looks the same and is not drawn again.
    """
    wide, narrow = (SafeString(svg(chart, width=width, label=label)) for width in (wide_px(chart), PHONE_PX))
    return wide, narrow, digest(chart)  # what charts have drawn is escaped there
