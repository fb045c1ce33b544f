"""A model behind an OpenAI-compatible endpoint: `POST {base}/chat/completions`, with retries and what it cost."""

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import msgspec

from .errors import Refused, Unreachable, UsageError
from .transport import USER_AGENT, patiently, retry_after_s

RETRIED_STATUSES = frozenset({408, 500, 502, 503, 504, 529})
# A fenced block; one that was cut off reaches to the end of the answer.
_FENCE = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_SOLUTION = re.compile(r"^(async\s+)?def\s+solution\s*\(|^solution\s*=", re.MULTILINE)


class Message(msgspec.Struct, frozen=True):
    """One turn of a conversation."""

    role: str
    content: str


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one answer; `tokens_cached` are those of `tokens_in` that the endpoint had seen before."""

    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0


class CalledFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A tool by its name, and its arguments as JSON in a string."""

    name: str
    arguments: str = ""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a tool by the model."""

    id: str
    function: CalledFunction
    type: str = "function"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The model's answer, and how long it took."""

    text: str
    finish_reason: str
    usage: Usage
    seconds: float


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """US dollars per million tokens; cached input costs as much as other input where its price is not given."""

    per_million_in: float = 0.0
    per_million_out: float = 0.0
    per_million_cached: float | None = None

    def cost_usd(self, usage: Usage) -> float:
        """What an answer cost."""
        cached = self.per_million_in if self.per_million_cached is None else self.per_million_cached
        fresh = usage.tokens_in - usage.tokens_cached
        total = fresh * self.per_million_in + usage.tokens_cached * cached + usage.tokens_out * self.per_million_out
        return total / 1e6


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _Details | None = None


class _Said(msgspec.Struct):
    content: str | None = None
    tool_calls: list[ToolCall] | None = None


class _Choice(msgspec.Struct):
    message: _Said
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage | None = None


class _Reason(msgspec.Struct):
    message: str = ""


class _ErrorBody(msgspec.Struct):
    error: _Reason | str


class ChatModel:
    """One model at one endpoint. Threads may ask at once."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        key: str = "",
        sampling: dict[str, Any] | None = None,
        timeout_s: float = 1800.0,
        patience_s: float = 900.0,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """`sampling` goes into every request as it is; `patience_s` is how long one question may be tried again.

        Raises:
            UsageError: `base_url` is no address.
        """
        address = httpx.URL(base_url.strip())
        if address.scheme not in {"http", "https"} or not address.host:
            raise UsageError(f"{base_url!r} is not the address of an endpoint; write it as http://127.0.0.1:8080/v1.")
        self.model = model
        self._sampling = sampling or {}
        self._patience_s = patience_s
        self._say = say
        self._url = f"{base_url.strip().rstrip('/')}/chat/completions"
        headers = {"User-Agent": USER_AGENT} | ({"Authorization": f"Bearer {key}"} if key else {})
        # Answers take minutes; a connection that cannot be made in 30 s will not be.
        self._http = httpx.Client(headers=headers, timeout=httpx.Timeout(timeout_s, connect=30.0))

    def close(self) -> None:
        """Close every connection."""
        self._http.close()

    def ask(self, messages: Sequence[Message]) -> Answer:
        """The model's next turn.

        Raises:
            Refused: the endpoint answered with an error.
            Unreachable: it did not answer, or not as the protocol says.
        """
        return _answer(*self._completed(messages))

    def turn(self, messages: Sequence[Any], tools: Sequence[Any]) -> tuple[Answer, dict[str, Any]]:
        """The next turn of a model with tools, read, and as the protocol has it; raises as `ask` does."""
        response, seconds = self._completed(messages, tools=tools)
        answer = _answer(response, seconds=seconds)
        said = msgspec.json.decode(response.content, type=_Completion).choices[0].message
        calls = {"tool_calls": msgspec.to_builtins(said.tool_calls)} if said.tool_calls else {}
        return answer, {"role": "assistant", "content": said.content or "", **calls}

    def _completed(self, messages: Sequence[Any], **more: Any) -> tuple[httpx.Response, float]:
        """The endpoint's response, and how long the try took that it came from."""
        body = {**self._sampling, "model": self.model, "messages": messages, **more}
        content = msgspec.json.encode(body)
        started = time.monotonic()

        def once() -> httpx.Response:
            nonlocal started
            started = time.monotonic()
            return self._http.post(self._url, content=content, headers={"Content-Type": "application/json"})

        response = patiently(
            once, _refusal, who=self._url, retried=RETRIED_STATUSES, patience_s=self._patience_s, say=self._say
        )
        return response, time.monotonic() - started


def _answer(response: httpx.Response, seconds: float) -> Answer:
    try:
        said = msgspec.json.decode(response.content, type=_Completion)
        choice = said.choices[0]
    except (msgspec.DecodeError, msgspec.ValidationError, IndexError) as error:
        raise Unreachable(f"{response.request.url} did not return a chat completion ({error}).") from error
    counted = said.usage or _Usage()
    cached = counted.prompt_tokens_details.cached_tokens if counted.prompt_tokens_details else None
    return Answer(
        text=choice.message.content or "",
        finish_reason=choice.finish_reason or "",
        usage=Usage(tokens_in=counted.prompt_tokens, tokens_out=counted.completion_tokens, tokens_cached=cached or 0),
        seconds=seconds,
    )


def _refusal(response: httpx.Response) -> Refused:
    """The endpoint's error in its own words."""
    try:
        reason = msgspec.json.decode(response.content, type=_ErrorBody).error
        words = reason if isinstance(reason, str) else reason.message
    except (msgspec.DecodeError, msgspec.ValidationError):
        words = ""
    return Refused(
        status=response.status_code,
        detail=f"The model's endpoint answered: {words or response.reason_phrase}",
        retry_after_s=retry_after_s(response.headers.get("Retry-After")),
    )


def defines_solution(text: str) -> bool:
    """Whether a text is a program that has `solution`."""
    return bool(_SOLUTION.search(text))


def source_in(text: str) -> str:
    """The program in a model's answer: the last fenced block that defines `solution`, else the whole text if it does.

    Empty where nothing defines it.
    """
    blocks = [found.group(3) for found in _FENCE.finditer(text)]
    for block in reversed(blocks):
        if _SOLUTION.search(block):
            return block
    return text if not blocks and _SOLUTION.search(text) else ""
