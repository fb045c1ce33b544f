"""A broker that is a folder: every message one file, so that an installation on one machine needs no server.

Kombu's own file transport writes a message under its final name, and moves it to the shared temporary directory to be
read. So a reader can get half a message, and other users can read the node's key. Here one rename publishes a message
and one rename takes it, within a folder that only its owner can enter.
"""

import os
import time
import uuid
from pathlib import Path
from queue import Empty
from typing import Any

from kombu.transport import virtual
from kombu.utils.json import dumps, loads


class Channel(virtual.Channel):
    """Queues as folders, messages as files named by their time of sending."""

    def _queue_folder(self, queue: str) -> Path:
        if not queue or "/" in queue or queue.startswith("."):
            raise ValueError(f"{queue!r} cannot be the name of a queue")
        client = self.connection.client
        assert client is not None, "kombu gives every channel a connection"
        assert client.transport_options is not None, "site_config and node_config name the folder"
        folder = Path(client.transport_options["folder"]) / queue
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def _put(self, queue: str, message: dict[str, Any], **_: Any) -> None:
        folder = self._queue_folder(queue)
        # Nanoseconds since the epoch, in fixed width: names sort by time, across processes and restarts.
        name = f"{time.time_ns():020d}-{uuid.uuid4().hex}"
        draft = folder / f".{name}"
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            file.write(dumps(message))
        draft.rename(folder / f"{name}.json")

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:  # noqa: ARG002 - kombu's signature
        folder = self._queue_folder(queue)
        for name in sorted(name for name in os.listdir(folder) if name.endswith(".json")):  # noqa: PTH208 - once per poll
            taken = folder / f".{name}.taken-{os.getpid()}"
            try:
                # A rename has one winner, so two consumers of a queue never take the same message.
                (folder / name).rename(taken)
            except FileNotFoundError:
                continue
            text = taken.read_text(encoding="utf-8")
            taken.unlink()
            message: dict[str, Any] = loads(text)
            return message
        raise Empty

    def _size(self, queue: str) -> int:
        return sum(1 for _ in self._queue_folder(queue).glob("[!.]*.json"))


class Transport(virtual.Transport):
    """The transport that `filesystem://` stands for."""

    Channel = Channel
    # Bindings are made anew by whoever connects; nothing but queues is shared.
    global_state = virtual.BrokerState()
