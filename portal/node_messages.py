"""The text of nodes' messages, before it is parsed."""

import re

_ESCAPE = re.compile(r"\\(?:u0000|.)", re.DOTALL)


def without_nul(text: str) -> str:
    """JSON without NUL in its strings: PostgreSQL stores none, and one must not cost a whole message."""
    if "\\u0000" not in text:
        return text
    # Escape by escape: behind an escaped backslash, u0000 are five letters.
    return _ESCAPE.sub(lambda found: "\\ufffd" if found[0] == "\\u0000" else found[0], text)
