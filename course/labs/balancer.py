"""A small balancer in front of replicas, and clients that ask it without end: who gets an error, and when.

The balancer is a TCP server of its own. It asks each replica's /ready now and then, hands requests to those that were
ready, in turn, and a request that fails it may hand on.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Retry = Literal["nothing", "refused", "all"]
BODY = json.dumps({"point": [1.0, 2.0]}).encode()
PATIENCE = 10.0


class RefusedError(OSError):
    """Nobody listens: the request has reached nobody."""


class CutError(OSError):
    """The connection ended before the answer: the request may have been worked on, or not."""


async def ask(port: int, method: str, path: str, body: bytes = b"", patience: float = PATIENCE) -> tuple[int, bytes]:
    """One request on a connection of its own: status and body. Raises RefusedError, CutError or TimeoutError."""
    async with asyncio.timeout(patience):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError as error:
            raise RefusedError(str(error)) from None
        try:
            head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write((head + kind).encode() + body)
            await writer.drain()
            whole = await reader.read()
        except OSError as error:
            raise CutError(str(error)) from None
        finally:
            writer.close()
    first, _, rest = whole.partition(b"\r\n\r\n")
    if not rest and b" 204 " not in first:
        raise CutError("the connection was closed without an answer")
    return int(first.split(b" ", 2)[1]), rest


def ask_once(port: int, method: str, path: str, body: bytes = b"", patience: float = PATIENCE) -> int:
    """The status of one request; 0 where there is no answer."""
    try:
        return asyncio.run(ask(port, method, path, body, patience))[0]
    except (OSError, TimeoutError):
        return 0


@dataclass
class Balancer:
    """Hands requests to `replicas` (ports, by name). Without `probes` it takes all of them for ready.

    A replica counts as ready after one good answer of /ready, and as not ready after `failures` bad ones in a row. It
    is asked every `period` seconds.
    """

    replicas: dict[str, int]
    probes: bool = True
    retry: Retry = "nothing"
    period: float = 0.25
    failures: int = 3
    ready: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    handed: dict[str, int] = field(default_factory=dict)  # how many requests each got

    async def __aenter__(self) -> Balancer:
        self._turn = itertools.count()
        if not self.probes:
            self.ready = set(self.replicas)
        self._tasks = [asyncio.create_task(self._watch(name)) for name in self.replicas if self.probes]
        self._server = await asyncio.start_server(self._client, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        self._server.close()

    async def _watch(self, name: str) -> None:
        bad = 0
        while True:
            try:
                status, _ = await ask(self.replicas[name], "GET", "/ready", patience=1.0)
            except (OSError, TimeoutError):
                status = 0
            bad = 0 if status == 200 else bad + 1
            if status == 200:
                self.ready.add(name)
            elif bad >= self.failures:
                self.ready.discard(name)
            await asyncio.sleep(self.period)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            status, said = await self._answer(await reader.readexactly(size))
            writer.write(
                f"HTTP/1.1 {status} -\r\nContent-Length: {len(said)}\r\nConnection: close\r\n\r\n".encode() + said
            )
            await writer.drain()
        writer.close()

    async def _answer(self, body: bytes) -> tuple[int, bytes]:
        tried: set[str] = set()
        while True:
            there = sorted(self.ready - self.removed - tried)
            if not there:
                return 503, b'{"error": "no replica"}'
            name = there[next(self._turn) % len(there)]
            tried.add(name)
            self.handed[name] = self.handed.get(name, 0) + 1
            try:
                return await ask(self.replicas[name], "POST", "/predict", body)
            except RefusedError:
                if self.retry == "nothing":
                    return 502, b'{"error": "refused"}'
            except (CutError, TimeoutError):
                if self.retry != "all":
                    return 502, b'{"error": "cut"}'


@dataclass(frozen=True)
class Asked:
    """One request of a client: when it was sent (seconds since the load began), and what came back."""

    sent: float
    status: int
    said: str

    @property
    def error(self) -> str:
        """Empty for an answer; else what the balancer or the replica said."""
        if self.status == 200:
            return ""
        found: dict[str, Any] = json.loads(self.said)
        return str(found.get("error", "not ready"))


@dataclass(frozen=True)
class Load:
    """What clients were told while something happened to a replica at `when` (seconds since the load began)."""

    asked: tuple[Asked, ...]
    when: float

    def errors(self, *kinds: str) -> int:
        """How many got an error; of these kinds, where some are named."""
        return sum(bool(each.error) and (not kinds or each.error in kinds) for each in self.asked)

    @property
    def lasted(self) -> float:
        """Seconds from what happened to the last request that got an error; 0 where none did."""
        return max([each.sent - self.when for each in self.asked if each.error] or [0.0])


async def _load(balancer: Balancer, a_second: int, steps: Sequence[tuple[float, Any]], seconds: float) -> Load:
    """So many requests a second for so many seconds; each step is called at its time, in a thread."""
    begun, asked, when = time.perf_counter(), [], 0.0
    async with balancer:
        while balancer.probes and balancer.ready < balancer.replicas.keys() and time.perf_counter() < begun + 5:
            await asyncio.sleep(0.02)
        begun = time.perf_counter()
        tasks: list[asyncio.Task[Asked]] = []
        left = list(steps)

        async def one(sent: float) -> Asked:
            try:
                status, said = await ask(balancer.port, "POST", "/predict", BODY)
            except (OSError, TimeoutError):
                return Asked(sent, 0, '{"error": "no balancer"}')
            return Asked(sent, status, said.decode())

        while (now := time.perf_counter() - begun) < seconds:
            while left and now >= left[0][0]:
                when = when or time.perf_counter() - begun
                await asyncio.to_thread(left.pop(0)[1])
            tasks.append(asyncio.create_task(one(time.perf_counter() - begun)))
            await asyncio.sleep(1 / a_second)
        asked = [await task for task in tasks]
    return Load(tuple(asked), when)


def load(balancer: Balancer, steps: Sequence[tuple[float, Any]] = (), seconds: float = 4.0, a_second: int = 40) -> Load:
    """Runs a balancer and its clients; `steps` are (seconds, function), the first of which is what happens."""
    found: list[Load] = []
    # in a thread of its own: a notebook's kernel has an event loop already
    thread = threading.Thread(target=lambda: found.append(asyncio.run(_load(balancer, a_second, steps, seconds))))
    thread.start()
    thread.join()
    return found[0]
