"""How tones become colours: as classes on pages, as the light theme's own colours in pictures that stand alone."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TOKENS = Path(__file__).resolve().parents[2] / "static" / "css" / "tokens.css"


@dataclass(frozen=True)
class Ink:
    """Writes the attribute that gives an element its tone; elements are drawn in `currentColor`.

    `is_standalone` is for pictures outside pages, which know no style sheet.
    """

    is_standalone: bool = False

    def tone(self, name: str) -> str:
        """The attribute, for example `class="t-accent"`."""
        return f'color="{light_colours()[name]}"' if self.is_standalone else f'class="t-{name}"'


@cache
def light_colours() -> dict[str, str]:
    """Every colour of the light theme by its name."""
    text = TOKENS.read_text(encoding="utf-8")
    return dict(re.findall(r"--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}),", text))
