"""The network between nodes and the site: a forwarder per node and server, which can be cut and mended.

To the site it is the proxy that ends TLS, and where it is told to, a bad one: it cuts requests in the middle, and
loses answers to what the site has done.
"""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

_CHUNK = 64 * 1024
_CUT, _LOST = "proxy cuts request", "proxy loses answer"


class Network:
    """Forwards connections to a port, node by node, in a thread of its own.

    Args:
        port: of the server.
        is_proxy: say on each connection that TLS ends here, as the site demands in production.
        harm: the share of connections on which a request is cut, and as many on which the answer is lost.
        seed: of which connections these are.
    """

    def __init__(self, port: int, *, is_proxy: bool = False, harm: float = 0.0, seed: str = "") -> None:
        self.happened: Counter[str] = Counter()
        self._port, self._is_proxy, self._harm = port, is_proxy, harm
        self._draw = random.Random(f"{seed} network")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._wires: dict[str, _Wire] = {}
        self._thread.start()

    def join(self, node: str) -> int:
        """The port at which `node` reaches the server."""
        if node not in self._wires:
            self._wires[node] = _Wire(self._port, is_proxy=self._is_proxy, harm=self._drawn)
            self._do(self._wires[node].open())
        return self._wires[node].port

    def cut(self, node: str) -> None:
        """From now on nothing gets through, in neither direction; connections stay open and silent."""
        self._loop.call_soon_threadsafe(self._wires[node].passes.clear)

    def mend(self, node: str) -> None:
        """Let new connections through; those from before the cut are gone."""
        self._do(self._wires[node].mend())

    def close(self) -> None:
        """End every connection."""
        for wire in self._wires.values():
            self._do(wire.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def _drawn(self) -> str:
        chance = self._draw.random()
        harm = _CUT if chance < self._harm else _LOST if chance < 2 * self._harm else ""
        if harm:
            self.happened[harm] += 1
        return harm

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(20)


class _Wire:
    """One node's way to a server."""

    def __init__(self, target: int, *, is_proxy: bool, harm: Callable[[], str]) -> None:
        self._is_proxy, self._harm = is_proxy, harm
        self.port = 0
        self.passes = asyncio.Event()
        self.passes.set()
        self._target = target
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def mend(self) -> None:
        await self._end_connections()
        self.passes.set()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._end_connections()

    async def _end_connections(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        pumps: list[asyncio.Task[None]] = []
        ends = [writer]
        # CancelledError is a mended wire: what was connected before the cut is gone.
        with suppress(OSError, asyncio.CancelledError):
            await self.passes.wait()
            there, away = await asyncio.open_connection("127.0.0.1", self._target)
            ends.append(away)
            harm = self._harm()
            pumps = [
                asyncio.create_task(self._pump(reader, away, is_proxy=self._is_proxy, is_cut=harm == _CUT)),
                asyncio.create_task(self._pump(there, writer, is_lost=harm == _LOST)),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        self._tasks.discard(task)
        for pump in pumps:
            pump.cancel()
        for end in ends:
            end.close()

    async def _pump(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        *,
        is_proxy: bool = False,
        is_cut: bool = False,
        is_lost: bool = False,
    ) -> None:
        with suppress(OSError):
            while data := await source.read(_CHUNK):
                await self.passes.wait()
                if is_lost:
                    return  # the site has answered, and nobody hears it
                if is_proxy:
                    line, end, rest = data.partition(b"\r\n")
                    data, is_proxy = line + end + b"X-Forwarded-Proto: https\r\n" + rest, False
                # The head comes first, with the body or before it.
                head, end, body = data.rpartition(b"\r\n\r\n")
                target.write(head + end + body[: len(body) // 2] if is_cut else data)
                await target.drain()
                if is_cut and body:
                    return
