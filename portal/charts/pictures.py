"""Pictures as files: what the server draws as SVG becomes PNG for those who show no SVG."""

from pathlib import Path

import resvg_py

VENDOR = Path(__file__).resolve().parents[2] / "static" / "vendor"
FONT_FILES = [str(VENDOR / name) for name in ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf")]


def png(svg: str, *, zoom: float = 2.0) -> bytes:
    """The picture as PNG, `zoom` pixels for each of its own; it knows no fonts but ours."""
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=zoom, skip_system_fonts=True, font_files=FONT_FILES))
