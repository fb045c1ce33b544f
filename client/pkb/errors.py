"""What can go wrong between a program and the site, and the exit status that the command ends with for it."""

from collections.abc import Sequence
from enum import IntEnum

from .results import FieldError


class ExitCode(IntEnum):
    """How the `pkb` command ends."""

    OK = 0
    """What was asked for happened; where something was judged, it passed."""
    NOT_PASSED = 1
    """Judged, and not passed."""
    USAGE = 2
    """The command was called wrongly, or a file is not what it should be."""
    REFUSED = 3
    """The site or the model's endpoint refused."""
    UNREACHABLE = 4
    """No answer, or none that can be read; trying again may help."""


class PkbError(Exception):
    """Anything this package raises on purpose."""

    exit_code = ExitCode.USAGE


class UsageError(PkbError):
    """An argument, a file or a setting is wrong; the message names it and what to do."""


class Unreachable(PkbError):
    """The other side did not respond, or sent something unreadable, and retries did not help."""

    exit_code = ExitCode.UNREACHABLE


class Refused(PkbError):
    """The site answered with an error: its status, its words, and one entry per input at fault."""

    exit_code = ExitCode.REFUSED

    def __init__(
        self, *, status: int, detail: str, errors: Sequence[FieldError] = (), retry_after_s: float | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = errors
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        lines = [_entry(error) for error in self.errors]
        if not any(self.detail in line for line in lines):
            lines.insert(0, self.detail)
        return "\n  ".join([f"{lines[0]} (HTTP {self.status})", *lines[1:]])


def _entry(error: FieldError) -> str:
    value = f" {error.value!r}" if error.value else ""
    return f"{error.field or 'request'}{value}: {error.message} {error.remedy}".strip()
