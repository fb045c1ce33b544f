"""What ranks print: read from pipes so that no rank blocks, kept head and tail, shown without control characters."""

import os
import re
import selectors
import threading

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


class Keeper:
    """The first and the last bytes of a stream; `dropped` is how many there were between them."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.dropped = 0
        self._aside: bytearray | None = None

    def set_aside(self) -> None:
        """Keep output from now on separately from the log, up to the size of the log."""
        self._aside = bytearray()

    @property
    def aside(self) -> str:
        """The output since `set_aside`."""
        return clean(bytes(self._aside or b"").decode("utf-8", "replace"))

    def add(self, data: bytes) -> None:
        """Append to the stream."""
        if self._aside is not None:
            self._aside += data[: max(0, 2 * self._half - len(self._aside))]
            return
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        surplus = len(self._tail) - self._half
        if surplus > 0:
            del self._tail[:surplus]
            self.dropped += surplus

    def text(self) -> str:
        """The kept output, with a note about what was left out."""
        gap = f"\n[... {self.dropped} bytes left out ...]\n".encode() if self.dropped else b""
        return clean((self._head + gap + self._tail).decode("utf-8", "replace"))


def clean(text: str) -> str:
    """`text` without control and direction characters; lines and tabs stay."""
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


class LogDrain:
    """One thread that reads every rank's pipe until all writers are gone or `close` is called."""

    def __init__(self, pipes: list[int], *, limit: int) -> None:
        self.keepers = [Keeper(limit) for _ in pipes]
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = os.pipe()
        self._selector.register(self._wake, selectors.EVENT_READ, None)
        for pipe, keeper in zip(pipes, self.keepers, strict=True):
            os.set_blocking(pipe, False)
            self._selector.register(pipe, selectors.EVENT_READ, keeper)
        self._thread = threading.Thread(target=self._run, name="log-drain", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while len(self._selector.get_map()) > 1:
            for key, _ in self._selector.select():
                if key.data is None:
                    return
                self._read(key.fd, key.data)

    def _read(self, pipe: int, keeper: Keeper) -> None:
        try:
            data = os.read(pipe, 65536)
        except BlockingIOError:
            return
        if data:
            keeper.add(data)
        else:
            self._selector.unregister(pipe)
            os.close(pipe)

    def close(self) -> None:
        """Stop reading, after a last read of what is there."""
        os.write(self._waker, b"x")
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                self._read(key.fd, key.data)
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                os.close(key.fd)
        self._selector.close()
        os.close(self._wake)
        os.close(self._waker)
