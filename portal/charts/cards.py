"""The picture that others show of a page: a card for shared links."""

from dataclasses import dataclass
from html import escape

from portal.charts.chart import Chart
from portal.charts.drawing import svg
from portal.charts.ink import Ink, light_colours

CARD_WIDTH, CARD_HEIGHT = 1200, 630
_LINE_CHARACTERS = 44
_CHART_WIDTH = 600


@dataclass(frozen=True, kw_only=True)
class Card:
    """What a shared link shows: what the page is about, its figure, what that is, and a chart where there is one."""

    title: str
    figure: str
    caption: str
    chart: Chart | None = None


def card_svg(card: Card) -> str:
    """The card as a picture of 1200 by 630."""
    colours = light_colours()
    lines = _wrapped(card.title)[:3]
    parts = [f'<rect width="{CARD_WIDTH}" height="{CARD_HEIGHT}" fill="{colours["bg"]}"/>']
    parts.append(_text("ParallelKernelBench", y=82, size=26, colour=colours["accent"], bold=True))
    parts += [_text(line, y=150 + 52 * place, size=42, bold=True) for place, line in enumerate(lines)]
    parts.append(_text(card.figure, y=400, size=92, colour=colours["accent-strong"], bold=True))
    captions = _wrapped(card.caption, most=32 if card.chart else 64)[:3]
    parts += [
        _text(line, y=462 + 38 * place, size=26, colour=colours["text-muted"]) for place, line in enumerate(captions)
    ]
    if card.chart is not None:
        drawn = svg(card.chart, width=_CHART_WIDTH, ink=Ink(is_standalone=True), ground=True)
        parts.append(f'<g transform="translate({CARD_WIDTH - _CHART_WIDTH - 40} 250)">{drawn}</g>')
    head = f'xmlns="http://www.w3.org/2000/svg" width="{CARD_WIDTH}" height="{CARD_HEIGHT}"'
    return f'<svg {head} viewBox="0 0 {CARD_WIDTH} {CARD_HEIGHT}" font-family="DejaVu Sans">{"".join(parts)}</svg>'


def _text(text: str, *, y: int, size: int, colour: str = "", bold: bool = False) -> str:
    look = f'font-size="{size}" fill="{colour or light_colours()["text"]}"' + (' font-weight="700"' if bold else "")
    return f'<text x="64" y="{y}" {look}>{escape(text)}</text>'


def _wrapped(text: str, *, most: int = _LINE_CHARACTERS) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > most:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
