"""Links through this process that can be cut: a network partition on one machine, without rights.

A cut link behaves as TCP over a network that loses everything: nothing arrives, nobody is told, what was sent waits.
Healed, it delivers what waited at once (a real sender would first wait for its next retransmission).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")
CHUNK = 1 << 16
Label = Callable[[bytes], str]  # from the first bytes that a connection sends: who sends them


class Links:
    """Proxies of servers on this machine, as a context; each listens on a port of its own.

    A link goes from a sender to a server's name; cutting one stops it in both directions.
    """

    def __enter__(self) -> Links:
        self._loop = asyncio.new_event_loop()
        self._gates: dict[tuple[str, str], asyncio.Event] = {}
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _t: TracebackType | None) -> None:
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def proxy(self, name: str, port: int, label: Label = lambda _first: "") -> int:
        """Returns the port by which others reach the server `name`, who listens on 127.0.0.1:port, now or later."""
        return self._call(self._serve(name, port, label))

    def cut(self, *links: tuple[str, str]) -> None:
        """Cuts (sender, server) links until they are healed; also for connections that come only then."""
        self._call(self._set(links, whole=False))

    def heal(self) -> None:
        """Makes all links whole."""
        self._call(self._set(tuple(self._gates), whole=True))

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _set(self, links: tuple[tuple[str, str], ...], *, whole: bool) -> None:
        for link in links:
            gate = self._gate(link)
            gate.set() if whole else gate.clear()

    def _gate(self, link: tuple[str, str]) -> asyncio.Event:
        if link not in self._gates:
            self._gates[link] = asyncio.Event()
            self._gates[link].set()
        return self._gates[link]

    async def _serve(self, name: str, port: int, label: Label) -> int:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                with contextlib.suppress(OSError, asyncio.CancelledError):
                    await self._carry(reader, writer, name, port, label)
            finally:
                self._tasks.discard(task)
                writer.close()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self._servers.append(server)
        listening: int = server.sockets[0].getsockname()[1]
        return listening

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str, port: int, label: Label
    ) -> None:
        first = await reader.read(CHUNK)
        gate = self._gate((label(first), name))
        await gate.wait()
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            far_writer.write(first)
            there, back = _pump(reader, far_writer, gate), _pump(far_reader, writer, gate)
            ways = [asyncio.ensure_future(there), asyncio.ensure_future(back)]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            far_writer.close()

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event) -> None:
    """Carries bytes one way. An end is carried as bytes are: only while the link is whole."""
    while data := await reader.read(CHUNK):
        await gate.wait()
        writer.write(data)
        await writer.drain()
    await gate.wait()
