"""Logs and stacks whose mentions of a source line lead to that line on the page."""

import re
from collections.abc import Iterable, Iterator

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString


def linked(text: str, *, paths: Iterable[str]) -> SafeString:
    """`text` as HTML, with `name:12`, `name(12)` and `File "name", line 12` linked for every name in `paths`.

    The paths are those of the submission's own files; what stands before them in the text, such as the folder in
    the sandbox, does not matter.
    """
    names = "|".join(re.escape(path) for path in sorted(paths, key=len, reverse=True))
    if not names:
        return format_html("{}", text)
    mention = re.compile(rf'(?<![\w.-])(?P<path>{names})(?:"?, line |\(|:)(?P<line>\d+)')
    return format_html_join("", "{}", ((part,) for part in _parts(text, mention)))


def _parts(text: str, mention: re.Pattern[str]) -> Iterator[str | SafeString]:
    end = 0
    for found in mention.finditer(text):
        yield text[end : found.start()]
        yield format_html('<a href="#{}-L{}">{}</a>', found["path"], found["line"], found[0])
        end = found.end()
    yield text[end:]
