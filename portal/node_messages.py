"""The text of nodes' messages, before it is parsed."""


def without_nul(text: str) -> str:
    """JSON without NUL in its strings: PostgreSQL stores none, and one must not cost a whole message."""
    return text.replace("\\u0000", "\\ufffd")
