"""How the site writes icons, verdicts, times, bytes and scores, puts charts on pages, and offers choices as links."""

import contextlib
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from html import escape, unescape
from typing import Any

from django import template
from django.http import QueryDict
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from evaluator import contract
from evaluator.hardware.profiles import Profile
from evaluator.judging.verdicts import FACTS, Fault
from portal.catalog.markdown import render
from portal.charts.chart import Chart
from portal.charts.drawing import PHONE_PX, svg, wide_px
from portal.charts.figures import ASK, FigureAsked, digest
from portal.core import speedups
from problems import registry
from problems.spec.categories import LOOKS, Look

register = template.Library()

# 16 x 16 outlines, stroke 1.5, our own.
_ICONS = {
    "check": '<path d="M3 8.5l3.2 3.2L13 4.8"/>',
    "cross": '<path d="M4 4l8 8M12 4l-8 8"/>',
    "warning": '<path d="M8 2.2L14.5 13.5h-13zM8 6.5v3.2M8 11.6v.1"/>',
    "info": '<circle cx="8" cy="8" r="6.3"/><path d="M8 7.3v3.6M8 5v.1"/>',
    "clock": '<circle cx="8" cy="8" r="6.3"/><path d="M8 4.6V8l2.3 1.6"/>',
    "stop": '<circle cx="8" cy="8" r="6.3"/><path d="M5.4 8h5.2"/>',
    "play": '<path d="M5 3.4l7.4 4.6L5 12.6z"/>',
    "sun": '<circle cx="8" cy="8" r="3"/><path d="M8 .9v1.8M8 13.3v1.8M.9 8h1.8M13.3 8h1.8'
    'M3 3l1.3 1.3M11.7 11.7L13 13M13 3l-1.3 1.3M4.3 11.7L3 13"/>',
    "moon": '<path d="M13.3 9.7A5.8 5.8 0 016.3 2.7 5.8 5.8 0 1013.3 9.7z"/>',
    "screen": '<rect x="1.7" y="2.6" width="12.6" height="8.6" rx="1"/><path d="M5.6 13.6h4.8"/>',
    "menu": '<path d="M2.5 4.5h11M2.5 8h11M2.5 11.5h11"/>',
    "copy": '<rect x="5.2" y="5.2" width="8.3" height="8.3" rx="1.2"/><path d="M10.8 2.5H2.5v8.3"/>',
    "download": '<path d="M8 2.2v8M4.8 7.3L8 10.4l3.2-3.1M2.8 13.5h10.4"/>',
    "mark": '<path d="M8 1.6v3.2M8 11.2v3.2M1.6 8h3.2M11.2 8h3.2"/><circle cx="8" cy="8" r="2.2"/>'
    '<circle cx="8" cy="1.8" r="1"/><circle cx="8" cy="14.2" r="1"/><circle cx="1.8" cy="8" r="1"/>'
    '<circle cx="14.2" cy="8" r="1"/>',
}


@register.simple_tag
def icon(name: str) -> SafeString:
    """A decorative icon as high as its text, which carries the meaning; style sheets may give it another size."""
    return mark_safe(  # noqa: S308 - a constant of this module
        '<svg viewBox="0 0 16 16" width="1em" height="1em" fill="none" stroke="currentColor" stroke-width="1.5" '
        f'stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" focusable="false">{_ICONS[name]}</svg>'
    )


def _badge(look: tuple[str, str], text: str, *, large: bool) -> SafeString:
    (tone, symbol), size = look, " badge--large" if large else ""
    return format_html('<span class="badge badge--{}{}">{}{}</span>', tone, size, icon(symbol), text)


@register.simple_tag
def verdict_badge(verdict: str, *, large: bool = False) -> SafeString:
    """A verdict as icon and words: colour never says it alone."""
    facts = FACTS[contract.Verdict(verdict)]
    of_fault = ("bad", "cross") if facts.fault is Fault.AUTHOR else ("odd", "warning")
    return _badge(("good", "check") if verdict == contract.Verdict.PASSED else of_fault, facts.title, large=large)


_STATES = {
    "queued": ("busy", "clock"),
    "built": ("busy", "clock"),
    "cancelled": ("none", "stop"),
    "unserved": ("odd", "clock"),
}
"""Tone and symbol of the states in which no node works on an evaluation."""


@register.simple_tag
def state_badge(evaluation: Any, *, large: bool = False, online: Container[str] | None = None) -> SafeString:
    """Where an evaluation is, or its verdict once it has one; `online` are the profiles that the site's nodes serve."""
    if evaluation.verdict:
        return verdict_badge(evaluation.verdict, large=large)
    is_ours = evaluation.state == "queued" and evaluation.node_owner_id is None
    if online is not None and is_ours and evaluation.profile not in online:
        return _badge(("odd", "clock"), "Waiting for hardware", large=large)
    return _badge(_STATES.get(evaluation.state, ("busy", "play")), evaluation.get_state_display(), large=large)


@register.filter
def recorded_sign(mark: str) -> str:
    """The sign of what was judged elsewhere and recorded (`mark` says when and where); empty without a mark."""
    return format_html(' <abbr class="recorded" title="{}: not judged by this site">R</abbr>', mark) if mark else ""


@register.simple_tag
def recorded_legend(*pairs: Any) -> str:
    """What the sign means in a table: rows, then where in a row its mark is, such as `"evaluation.recorded"`."""
    marks: dict[str, None] = {}
    for rows, path in zip(pairs[::2], pairs[1::2], strict=True):
        place = template.Variable(f"row.{path}")
        for row in rows:
            with contextlib.suppress(template.VariableDoesNotExist):  # no leader, no model
                marks[place.resolve({"row": row})] = None
    shown = "; ".join(filter(None, marks))
    return format_html('<p class="small muted"><b>R</b>: {}. Not judged by this site.</p>', shown) if shown else ""


register.filter("markdown", render)


@register.filter
def readers_markdown(text: str, below: int) -> SafeString:
    """HTML of a reader's Markdown: its headings are deeper than level `below`, and nobody vouches for its links."""
    html = render(text, is_ours=False)  # the parser alone writes tags: what a reader writes as one is text
    deeper = re.sub(r"(?<=<)(/?h)([1-6])(?=>)", lambda found: f"{found[1]}{min(6, int(found[2]) + below)}", html)
    return SafeString(deeper.replace("<a ", '<a rel="nofollow ugc" '))


@register.filter
def public_look(slug: str) -> Look | None:
    """The look for an optimized public implementation of a problem; None where nobody has looked."""
    return LOOKS.get(slug)


@register.filter
def microseconds(value: float | None) -> str:
    """A time given in microseconds, in the unit that suits it; values below a nanosecond are shown as such."""
    if value is None:
        return "none"
    if 0 < value < 0.001:
        return "< 0.001 µs"
    for limit, divisor, unit in ((1e3, 1, "µs"), (1e6, 1e3, "ms")):
        if value < limit:
            return f"{significant(value / divisor)} {unit}"
    return f"{significant(value / 1e6)} s"


@register.filter
def seconds(value: float | None) -> str:
    """A wait given in seconds, rounded for planning; short waits look the same."""
    if value is None:
        return "unknown"
    if value < 5:
        return "5 s"
    if value < 90:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 5400 else f"{value / 3600:.1f} h"


@register.filter
def heartbeat(value: datetime) -> str:
    """The age of a node's last heartbeat, in words that do not change while heartbeats arrive."""
    age = (timezone.now() - value).total_seconds()
    return "just now" if age < 60 else f"{seconds(age)} ago"


@register.filter
def significant(value: float) -> str:
    """Three significant digits, with thousands separated and never an exponent."""
    if value == 0:
        return "0"
    magnitude = abs(value)
    digits = 2 if magnitude < 10 else 1 if magnitude < 100 else 0
    return f"{value:,.{digits}f}" if magnitude >= 0.01 else f"{value:.2g}"


def _scaled(value: float, *, units: tuple[str, ...], base: float) -> str:
    for unit in units[:-1]:
        if abs(value) < base:
            return f"{significant(value)} {unit}".strip()
        value /= base
    return f"{significant(value)} {units[-1]}"


@register.filter
def percent(value: float | None) -> str:
    """A share as a percentage with two significant digits; empty where it is unknown."""
    if value is not None and 0 < value < 1e-5:
        return "< 0.001 %"
    return "" if value is None else f"{float(f'{100 * value:.2g}'):,.10g} %"


@register.filter
def compact(value: float) -> str:
    """A pure number with three significant digits, with M, G, ... from a million on."""
    return significant(value) if abs(value) < 1e6 else _scaled(value / 1e6, units=("M", "G", "T", "P"), base=1000)


@register.filter
def flops(value: float) -> str:
    return _scaled(value, units=("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"), base=1000)


@register.filter
def data_size(value: float) -> str:
    """A number of bytes in binary units."""
    return _scaled(value, units=("B", "KiB", "MiB", "GiB", "TiB"), base=1024)


@register.filter
def score(value: float | None) -> str:
    """A mean of speedups, or one of which no interval is at hand."""
    return "" if value is None else speedups.factor(value)


register.filter(contract.is_informative)
register.filter(speedups.untold)


def _ends(row: Any) -> tuple[float | None, float | None]:
    """The interval of a row's speedup, however the row calls its ends."""
    return (row.low, row.high) if hasattr(row, "low") else (row.score_low, row.score_high)


@register.filter
def bounds(row: Any) -> str:
    """The ends of the interval of a row's speedup; empty where they say nothing."""
    low, high = _ends(row)
    return speedups.interval(low, high) if low and high and contract.is_informative(low, high) else ""


@register.simple_tag
def speedup(row: Any, on: str = "", *, alone: bool = False) -> SafeString:
    """A row's speedup in words, below it its interval unless `alone`, and what it rests on; `on` names the profile."""
    # Without `format_html`: a table has hundreds of them, and a roofline's page makes 4 % fewer calls.
    if row.score is None:
        return SafeString("")
    profile, (low, high) = on or row.profile, _ends(row)
    words = speedups.in_words(row.score, low, high, profile=profile)
    above = f"<strong>{words}</strong>" if words[0].isdigit() else f'<span class="muted">{words}</span>'
    below = ("" if alone else bounds(row), getattr(row, "rests_on", ""))
    return SafeString(above + "".join(f'<span class="sub">{escape(text)}</span>' for text in below if text))


@register.filter
def three(value: float) -> str:
    """A number with three decimals; much quicker than `floatformat`."""
    return f"{value:.3f}"


@register.filter
def moment(value: datetime) -> SafeString:
    """A time to the minute in UTC, as a machine-readable element; much quicker than two `date` filters."""
    utc = value.astimezone(UTC)
    shown = f"{utc:%Y-%m-%d %H:%M}"
    return mark_safe(f'<time datetime="{utc.isoformat(timespec="seconds")}">{shown}</time>')  # noqa: S308 - a time


@register.filter
def item(mapping: dict[Any, Any], key: Any) -> Any:
    return mapping.get(key)


@register.filter
def rate(value: float) -> str:
    """Bytes per second in decimal units, as datasheets count them."""
    return f"{_scaled(value, units=('B', 'kB', 'MB', 'GB', 'TB'), base=1000)}/s"


@register.simple_tag
def interval_bar(row: Any, left: float, right: float) -> SafeString:
    """A score's interval as a small picture between the speedups `left` and `right`; the numbers are next to it.

    The dashed line marks the reference's own time, a speedup of 1.
    """
    one, low, high, mid = (
        f"{100 * (value - left) / (right - left):.1f}" for value in (1.0, row.low, row.high, row.score)
    )
    return mark_safe(  # noqa: S308 - numbers of ours; a board has fifty of these
        '<svg class="interval" viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true">'
        f'<line class="track" x1="0" x2="100" y1="6" y2="6"/><line class="one" x1="{one}" x2="{one}" y1="0" y2="12"/>'
        f'<line class="span" x1="{low}" x2="{high}" y1="6" y2="6"/>'
        f'<line class="mid" x1="{mid}" x2="{mid}" y1="1" y2="11"/></svg>'
    )


@register.simple_tag
@cache
def problem_cells(slug: str, *, is_mine: bool) -> SafeString:
    """The cells of a list that say what a problem is: the same for every reader while the process lives."""
    context = {"problem": registry.get(slug), "is_mine": is_mine}
    return SafeString(render_to_string("problems/_cells.html", context).strip())


@register.filter
@lru_cache(maxsize=4096)
def at(view: str, key: Any) -> SafeString:
    """The address of the page `view` of `key`, as `{% url %}` writes it in twenty times the time: for lists."""
    return SafeString(escape(reverse(view, args=[key])))


@register.simple_tag(takes_context=True)
def current(context: template.Context, *prefixes: str) -> SafeString:
    """`aria-current` for the navigation entry whose addresses the page's begins with."""
    request = context.get("request")
    is_here = request is not None and request.path.startswith(prefixes)
    return mark_safe(' aria-current="page"') if is_here else SafeString("")


_DROPPED = ("after", "before", "page", "window")
"""Where one was in another list, or in another picture, means nothing in the chosen one."""


@register.inclusion_tag("includes/chips.html", takes_context=True)
def chips(
    context: template.Context,
    label: str,
    name: str,
    choices: Iterable[Any],
    chosen: Any = "",
    *,
    every: str = "",
    notes: Mapping[str, Any] | None = None,
    anchor: str = "",
) -> dict[str, Any]:
    """A row of links that set the parameter `name` of the page's address.

    Args:
        context: the page's.
        label: what is chosen.
        name: the parameter.
        choices: values, or pairs of a value and what is read.
        chosen: the current value.
        every: what the link says that chooses nothing; there is none where this is empty.
        notes: a note on a choice, such as a count, by value; choices without one come last, folded away.
        anchor: the part of the page that the links lead to, such as "#roofline".
    """
    query = context["request"].GET
    pairs = [choice if isinstance(choice, tuple) else (choice, getattr(choice, "label", choice)) for choice in choices]
    offered = [("", every), *pairs] if every else pairs
    links = [
        {
            "text": text,
            "href": _address(query, name, str(value)) + anchor,
            "is_chosen": str(value) == str(chosen or ""),
            "note": (notes or {}).get(value),
        }
        for value, text in offered
    ]
    is_plain = notes is None
    shown = [link for link in links if is_plain or link["note"] or link["is_chosen"] or link["text"] == every]
    return {"label": label, "links": shown, "more": [link for link in links if link not in shown]}


@register.inclusion_tag("includes/chips.html", takes_context=True)
def profile_chips(
    context: template.Context, choices: Sequence[tuple[Profile, int | str | None]], chosen: Any, every: str = ""
) -> dict[str, Any]:
    """`chips` of hardware: profiles with how much there is of each; those without anything are folded away."""
    notes = None if all(count is None for _, count in choices) else {profile.name: count for profile, count in choices}
    names = [(profile.name, profile.title) for profile, _ in choices]
    return chips(context, "Hardware", "profile", names, getattr(chosen, "name", chosen), every=every, notes=notes)


def _address(query: QueryDict, name: str, value: str) -> str:
    changed = query.copy()
    for dropped in _DROPPED:
        changed.pop(dropped, None)
    changed[name] = value
    if not value:
        del changed[name]
    return f"?{changed.urlencode()}"


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
