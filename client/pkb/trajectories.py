"""Trajectories of mini-SWE-agent as attempts of a run: every program that the agent wrote whole is a step.

The file is the one that mini-SWE-agent saves (formats mini-swe-agent-1 and 1.1). Its agent has a shell alone, so
programs are found where it writes a file: in here-documents that define `solution`. What it changed by other commands
is not in them.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from .agent import trajectory
from .chat import Answer, Usage, defines_solution
from .errors import UsageError
from .runs import NewAttempt

_HERE_DOCUMENT = re.compile(r"^([^\n]*<<-?[ \t]*(['\"]?)(\w+)\2[^\n]*)\n(.*?\n)\t*\3[ \t]*$", re.MULTILINE | re.DOTALL)


class _Action(msgspec.Struct):
    command: str = ""


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Response(msgspec.Struct):
    usage: _Usage | None = None


class _Extra(msgspec.Struct):
    actions: list[_Action] = []
    cost: float = 0.0
    timestamp: float | None = None
    response: Any = None


class _Message(msgspec.Struct):
    role: str = ""
    content: Any = None
    extra: _Extra = msgspec.field(default_factory=_Extra)


class _File(msgspec.Struct):
    messages: list[_Message]
    trajectory_format: str


def attempts_of(path: Path, *, problem: str, sample: int = 0, final: Path | None = None) -> Iterator[NewAttempt]:
    """The steps in mode check, and the last program, or that of the file `final`, in mode ranked.

    Raises:
        UsageError: the file is no such trajectory, or holds no program and `final` is not given.
    """
    read = _read(path)
    asked = "\n\n".join(_text(message) for message in read.messages[:2])
    step, source, since = 0, "", _Since()
    for message in read.messages[2:]:
        since.take(message)
        for program in _programs(message):
            source = program
            yield since.attempt(asked, problem=problem, sample=sample, step=step, source=source, mode="check")
            step, since = step + 1, _Since(at=since.at)
    if final is not None:
        source = final.read_text(encoding="utf-8")
    if not source:
        raise UsageError(f"{path} has no program that was written whole; give the file with --final.")
    yield since.attempt(asked, problem=problem, sample=sample, step=step, source=source, mode="ranked")


class _Since:
    """What was said and spent since the last program."""

    def __init__(self, at: float | None = None) -> None:
        self.said: list[str] = []
        self.tokens_in = self.tokens_out = 0
        self.cost_usd = self.seconds = 0.0
        self.at = at

    def take(self, message: _Message) -> None:
        extra = message.extra
        self.said.append(f"[{message.role}]\n{_text(message)}")
        self.said += [f"$ {action.command}" for action in extra.actions]
        self.cost_usd += extra.cost
        usage = _usage(extra.response)
        self.tokens_in, self.tokens_out = self.tokens_in + usage.tokens_in, self.tokens_out + usage.tokens_out
        if extra.timestamp is not None:
            self.seconds += extra.timestamp - self.at if self.at is not None else 0.0
            self.at = extra.timestamp

    def attempt(self, asked: str, **what: Any) -> NewAttempt:
        usage = Usage(tokens_in=self.tokens_in, tokens_out=self.tokens_out)
        answer = Answer(text="\n\n".join(self.said), finish_reason="", usage=usage, seconds=self.seconds)
        return NewAttempt(
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
            cost_usd=self.cost_usd,
            seconds=round(max(0.0, self.seconds), 3),
            trajectory=trajectory(asked, answer),
            **what,
        )


def _read(path: Path) -> _File:
    try:
        read = msgspec.json.decode(path.read_bytes(), type=_File)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from error
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{path} is no trajectory of mini-SWE-agent ({error}).") from error
    if not read.trajectory_format.startswith("mini-swe-agent-1"):
        raise UsageError(
            f"{path} has the format {read.trajectory_format!r}, not mini-swe-agent-1 or 1.1. "
            "Write attempts as JSON Lines and use `pkb run upload`."
        )
    return read


def _programs(message: _Message) -> Iterator[str]:
    # Before 1.1 commands stand in the text alone.
    commands = [action.command for action in message.extra.actions] or [_text(message)]
    for command in commands if message.role == "assistant" else ():
        for found in _HERE_DOCUMENT.finditer(command):
            if ".py" in found.group(1) and defines_solution(found.group(4)):
                yield found.group(4)


def _text(message: _Message) -> str:
    if isinstance(message.content, list):
        parts = (part.get("text", "") if isinstance(part, dict) else str(part) for part in message.content)
        return "\n".join(parts)
    return message.content if isinstance(message.content, str) else ""


def _usage(response: Any) -> Usage:
    try:
        counted = msgspec.convert(response, _Response).usage or _Usage()
    except msgspec.ValidationError:
        return Usage()
    return Usage(tokens_in=counted.prompt_tokens, tokens_out=counted.completion_tokens)
