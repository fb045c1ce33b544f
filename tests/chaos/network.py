"""The network between nodes and their broker: a forwarder per node, which can be cut and mended."""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

_CHUNK = 64 * 1024


class Network:
    """Forwards connections to the broker's port, node by node, in a thread of its own."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._wires: dict[str, _Wire] = {}
        self._thread.start()

    def join(self, node: str) -> int:
        """The port at which `node` reaches the broker."""
        if node not in self._wires:
            self._wires[node] = _Wire(self._port)
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

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(20)


class _Wire:
    """One node's way to the broker."""

    def __init__(self, target: int) -> None:
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
            pumps = [asyncio.create_task(self._pump(reader, away)), asyncio.create_task(self._pump(there, writer))]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        self._tasks.discard(task)
        for pump in pumps:
            pump.cancel()
        for end in ends:
            end.close()

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(_CHUNK):
                await self.passes.wait()
                target.write(data)
                await target.drain()
