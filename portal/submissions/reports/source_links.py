"""Logs and stacks whose mentions of a source line lead to that line on the page."""

import re
from collections.abc import Iterable, Iterator

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString


def linked(text: str, paths: Iterable[str]) -> SafeString:
    """`text` as HTML, with `name:12`, `name(12)` and `File "name", line 12` linked for every name in `paths`.

    The paths are those of the submission's own files; what stands before them in the text, such as the folder in
    the sandbox, does not matter.
    """
    mention = _mention(paths)
    if mention is None:
        return format_html("{}", text)
    return format_html_join("", "{}", ((part,) for part in _parts(text, mention)))


def _mention(paths: Iterable[str]) -> re.Pattern[str] | None:
    """What a mention of a line of one of `paths` looks like; None without any path."""
    names = "|".join(re.escape(path) for path in sorted(paths, key=len, reverse=True))
    return re.compile(rf'(?<![\w.-])(?P<path>{names})(?:"?, line |\(|:)(?P<line>\d{{1,7}})') if names else None


def mentions(text: str, *, paths: Iterable[str]) -> list[tuple[str, int]]:
    """The lines of `paths` that `text` names, each once, in their order."""
    pattern = _mention(paths)
    found = pattern.finditer(text) if pattern else ()
    return list(dict.fromkeys((each["path"], int(each["line"])) for each in found))


def own_frames(text: str, paths: Iterable[str]) -> str:
    """The lines of a stack that are in one of `paths`, with the code quoted below each; empty without any."""
    names = tuple(f'{path}"' for path in paths)
    kept: list[str] = []
    is_own = False
    for line in text.splitlines():
        is_frame = line.lstrip().startswith('File "')
        is_own = any(name in line for name in names) if is_frame else is_own and line.startswith("    ")
        if is_own:
            kept.append(line)
    return "\n".join(kept)


def _parts(text: str, mention: re.Pattern[str]) -> Iterator[str | SafeString]:
    end = 0
    for found in mention.finditer(text):
        yield text[end : found.start()]
        yield format_html('<a href="#{}-L{}">{}</a>', found["path"], found["line"], found[0])
        end = found.end()
    yield text[end:]
