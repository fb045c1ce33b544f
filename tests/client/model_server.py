"""A model of ours behind the protocol that vendors speak: POST /v1/chat/completions with usage.

It answers by what it is asked, as a model would: `reply` sees the conversation and returns the next turn.
"""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.client.programs import NO_COMMUNICATION, RAISES_ON_RANK_ONE, RIGHT

KEY = "sk-only-for-tests"
Conversation = list[dict[str, str]]
Reply = Callable[[Conversation], Any]
"""A text, or the tools that the model calls: (name, arguments) each."""


def fenced(source: str) -> str:
    """An answer as models write it."""
    return f"Let me think.\n\n```python\n{source}```\nThis should do.\n"


def called(tools: list[tuple[str, dict[str, Any]]], turn: int) -> dict[str, Any]:
    """A turn of a model that calls tools."""
    calls = [
        {"id": f"{turn}-{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for number, (name, arguments) in enumerate(tools)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def learns_from_the_diagnosis(messages: Conversation) -> str:
    """Raises at first, forgets to communicate once it reads of that, and is right once it reads of the wrong values."""
    last = messages[-1]["content"]
    if "WRONG_RESULT" in last and "elements wrong" in last:
        return fenced(RIGHT)
    if "RUNTIME_ERROR" in last and "rank one gives up" in last:
        return fenced(NO_COMMUNICATION)
    return fenced(RAISES_ON_RANK_ONE)


class ModelServer:
    """The endpoint; a context manager."""

    def __init__(self, reply: Reply = learns_from_the_diagnosis, *, refuse_first: int = 0) -> None:
        """The first `refuse_first` calls are answered with 429 and a Retry-After of no time."""
        self.asked: list[dict[str, Any]] = []
        self.refused = 0
        self._reply = reply
        self._refuse_first = refuse_first
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, key: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and body of one call."""
        if path != "/v1/chat/completions":
            return 404, {"error": {"message": f"no such path {path}"}}
        if key != f"Bearer {KEY}":
            return 401, {"error": {"message": "Incorrect API key provided"}}
        with self._lock:
            if self.refused < self._refuse_first:
                self.refused += 1
                return 429, {"error": {"message": "Rate limit reached"}}
            self.asked.append(body)
        text = self._reply(body["messages"])
        usage = {
            "prompt_tokens": 1000 * len(body["messages"]),
            "completion_tokens": 100,
            "total_tokens": 1000 * len(body["messages"]) + 100,
            "prompt_tokens_details": {"cached_tokens": 1000 * (len(body["messages"]) - 1)},
        }
        message = {"role": "assistant", "content": text} if isinstance(text, str) else called(text, len(self.asked))
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return 200, {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [choice],
            "usage": usage,
        }

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, answer = server.answer(self.path, self.headers.get("Authorization", ""), body)
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                if status == 429:
                    self.send_header("Retry-After", "0")
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler
