"""Log lines of site and nodes: one line each, as text or JSON, with the identifiers of their subject.

The identifier of a web request goes with its evaluation through the queue to the node that judges it. It finds every
line about the evaluation, from the request to the ranks.
"""

import hashlib
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

_FORMATTERS: Mapping[str, Mapping[str, Any]] = {
    "text": {"()": "evaluator.logs.OneLine", "format": "%(asctime)s %(levelname)s %(name)s: %(message)s"},
    "json": {
        "()": "pythonjsonlogger.json.JsonFormatter",
        "fmt": "%(asctime)s %(levelname)s %(name)s %(message)s %(process)d",
        "rename_fields": {"asctime": "time", "levelname": "level", "name": "logger"},
    },
}
FORMATS = tuple(_FORMATTERS)
_NOTHING: Mapping[str, str] = MappingProxyType({})
_facts: ContextVar[Mapping[str, str]] = ContextVar("facts_of_log_lines", default=_NOTHING)


@contextmanager
def about(**facts: str) -> Iterator[None]:
    """Add `facts`, such as `evaluation="..."`, to every line that this thread logs while entered, except empty ones."""
    token = _facts.set({**_facts.get(), **{name: value for name, value in facts.items() if value}})
    try:
        yield
    finally:
        _facts.reset(token)


def current(name: str) -> str:
    """The present fact `name` of this thread; empty where there is none."""
    return _facts.get().get(name, "")


def lease_mark(lease: str) -> str:
    """A mark for a lease in log lines: a reader of logs must not be able to report under the lease."""
    return hashlib.sha256(lease.encode()).hexdigest()[:12]


class AddFacts(logging.Filter):
    """Gives every record the facts of its thread as attributes; a record's own facts take precedence."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record; none is left out."""
        own = {name: value for name, value in _facts.get().items() if not hasattr(record, name)}
        record.__dict__.update(own)
        return True


class OneLine(logging.Formatter):
    """Text for people. A quoted text cannot begin its own line; a traceback follows on lines below."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """The line, with its facts in brackets at the end."""
        facts = " ".join(f"{name}={getattr(record, name)}" for name in _NAMES if getattr(record, name, ""))
        line = super().formatMessage(record)
        # Line breaks and other control characters, also U+2028 and U+2029, are written as escapes.
        text = f"{line} [{facts}]" if facts else line
        return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in text)


_NAMES = ("request_id", "submission", "evaluation", "lease", "node")
"""The facts, in the order in which text shows them."""


def configuration(log_format: str, *, level: str = "INFO") -> dict[str, Any]:
    """The settings for `logging.config.dictConfig`: everything to standard error.

    Raises:
        ValueError: the format is neither text nor json.
    """
    if log_format not in _FORMATTERS:
        raise ValueError(f"{log_format!r} is not a format of log lines; use one of {', '.join(_FORMATTERS)}")
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"facts": {"()": "evaluator.logs.AddFacts"}},
        "formatters": {"lines": _FORMATTERS[log_format]},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "lines",
                "filters": ["facts"],
                "stream": "ext://sys.stderr",
            }
        },
        "root": {"level": level, "handlers": ["stderr"]},
    }
