"""Blanks comments, so that naming something in one is no use of it. Line numbers stay."""

import re

_BEGIN = re.compile(r"//|/\*")
_NOT_NEWLINE = re.compile(r"[^\n]")


def without_c_comments(text: str) -> str:
    """`text` with the comments of C blanked; one without an end stays. The work grows with the text alone."""
    parts: list[str] = []
    at = 0
    while (begin := _BEGIN.search(text, at)) is not None:
        end = _end(text, begin.start(), is_line=begin[0] == "//")
        if end < 0:
            # A later comment of this kind has no end either, but those to the end of a line have one.
            return "".join(parts) + text[at : begin.start()] + _without_line_comments(text[begin.start() :])
        parts += [text[at : begin.start()], _NOT_NEWLINE.sub(" ", text[begin.start() : end])]
        at = end
    return "".join(parts) + text[at:]


def _end(text: str, begin: int, *, is_line: bool) -> int:
    """Where the comment that begins at `begin` ends; -1 where it does not."""
    if is_line:
        end = text.find("\n", begin)
        return len(text) if end < 0 else end
    end = text.find("*/", begin + 2)
    return -1 if end < 0 else end + 2


def _without_line_comments(text: str) -> str:
    return re.sub(r"//[^\n]*", lambda comment: " " * len(comment[0]), text)
