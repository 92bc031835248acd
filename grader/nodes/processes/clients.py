"""Clients: each asks one node, one request at a time, and what they asked and heard is the history of the run."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from grader.nodes.processes.cluster import Cluster
from grader.nodes.processes.loop import Timer
from grader.nodes.protocol import NO_SUCH_KEY, TIMEOUT, Body, Malformed, Message, definite, quoted
from grader.nodes.workloads.workload import Event, Memory, Op, Workload

# asking changes nothing: without an answer it may as well not have happened
HARMLESS = frozenset({"read", "echo", "poll", "list_committed_offsets"})


@dataclass
class Client:
    """One client, beside one node. Its process in the history gets a new number when nobody knows how a request ended.

    For a process that asked something else meanwhile would have waited, which this one did not (Jepsen does the same).
    """

    name: str
    node: str
    process: int
    asked: int = 0  # the last msg_id
    op: Op | None = None  # what it waits for
    final: bool = False
    done: Callable[[], None] | None = None
    timer: Timer | None = None
    memory: Memory | None = None


class Clients:
    """One client for each node of a cluster, and the events of all of them."""

    def __init__(self, cluster: Cluster, workload: Workload, seconds: float, seed: int) -> None:
        self.cluster, self.workload, self.seconds = cluster, workload, seconds
        self.events: list[Event] = []
        self.began = cluster.loop.now()
        remember = workload.memories() if workload.memories is not None else lambda: None
        self.all = [Client(f"c{k}", node, k - 1, memory=remember()) for k, node in enumerate(cluster.ids, 1)]
        self.late = 0  # answers that came when nobody waited for them
        self._by_name = {client.name: client for client in self.all}
        self._draw = random.Random(f"{seed}/clients")
        self._operations: Iterator[Op] = workload.operations(random.Random(f"{seed}/operations"))
        for client in self.all:
            cluster.add_client(client.name, self._hear)

    @property
    def busy(self) -> bool:
        return any(client.op is not None for client in self.all)

    def ask_at_rate(self, rate: float, until: float) -> None:
        """Make requests at random times, `rate` a second over all clients, until the loop's time is `until`.

        Where all clients wait for answers, a request waits for the first that is free.
        """
        loop = self.cluster.loop
        most_owed = len(self.all) + int(rate / 10)  # a standstill is not made up for by a burst
        owed = 0
        following = loop.now()

        def due() -> None:
            nonlocal owed, following
            owed = min(owed + 1, most_owed)
            pay()
            following += self._draw.expovariate(rate)
            if following < until:
                loop.at(following, due)

        def pay() -> None:
            nonlocal owed
            free = [client for client in self.all if client.op is None]
            if owed and free and loop.now() < until and self.cluster.trouble is None:
                owed -= 1
                self.ask(self._draw.choice(free), next(self._operations), pay)

        if rate > 0:
            following += self._draw.expovariate(rate)
            loop.at(following, due)

    def ask(self, client: Client, op: Op, done: Callable[[], None] | None = None, final: bool = False) -> None:
        """Send a request; `done` is called when it was answered, or never will be."""
        if client.memory is not None:
            op = client.memory.request(op, final)
        self._ask(client, op, done, final)

    def _ask(self, client: Client, op: Op, done: Callable[[], None] | None, final: bool) -> None:
        client.op, client.final, client.done = op, final, done
        self._note(client, "invoke", op.value)
        client.timer = self.cluster.loop.after(self.seconds, lambda: self._give_up(client))
        self._send(client, self.workload.request(op))

    def _send(self, client: Client, body: Body) -> None:
        client.asked += 1
        self.cluster.send(Message(client.name, client.node, {**body, "msg_id": client.asked}), client.name)

    def _hear(self, message: Message) -> None:
        """A node sent something to a client."""
        client, body, op = self._by_name[message.dest], message.body, self._by_name[message.dest].op
        number = body.get("in_reply_to")
        try:
            if number is None:
                raise Malformed(f"sent client {client.name} a message without 'in_reply_to': {_shown(message)}. Put "
                                "the msg_id of the request there")  # fmt: skip
            if not 0 < number <= client.asked:
                raise Malformed(f"sent client {client.name} an answer to a request it never made: {_shown(message)}"
                                f". Its last request had the msg_id {client.asked}")  # fmt: skip
            if op is None or number != client.asked:
                self.late += 1
                return
            if body.get("type") == "error":
                self._refused(client, op, message)
                return
            if body.get("type") != f"{op.f}_ok":
                raise Malformed(f"answered {op.f!r} with {_shown(message)}. Answer with a body of type "
                                f"'{op.f}_ok' or 'error'")  # fmt: skip
            self._end(client, "ok", self.workload.answer(op, body))
        except Malformed as wrong:
            self.cluster.fail(message.src, str(wrong))

    def _refused(self, client: Client, op: Op, message: Message) -> None:
        code = message.body.get("code")
        if not isinstance(code, int) or isinstance(code, bool):
            raise Malformed(f"answered with an error whose 'code' is not an integer: {_shown(message)}")
        if op.f == "read" and code == NO_SUCH_KEY:
            self._end(client, "ok", None)
        elif definite(code) or op.f in HARMLESS:
            self._end(client, "fail", op.value, code)
        else:
            self._end(client, "info", op.value, code)

    def _give_up(self, client: Client) -> None:
        if client.op is not None:
            self._end(client, "fail" if client.op.f in HARMLESS else "info", client.op.value, TIMEOUT)

    def _end(self, client: Client, type_: str, value: Any, code: int | None = None) -> None:
        self._note(client, type_, value, code)
        if client.timer is not None:
            client.timer.cancel()
        op, memory = client.op, client.memory
        then = memory.answered(op, value, client.final) if memory is not None and type_ == "ok" and op else None
        if type_ == "info":
            client.process += len(self.all)
            if memory is not None:
                memory.forget()
        client.op, done, client.done = None, client.done, None
        if then is not None and self.cluster.trouble is None:
            self._ask(client, then, done, client.final)
        elif done is not None:
            done()

    def _note(self, client: Client, type_: str, value: Any, code: int | None = None) -> None:
        op = client.op
        assert op is not None
        event: Event = {"process": client.process, "type": type_, "f": op.f, "key": op.key, "value": value}
        event["time"] = int(1e9 * (self.cluster.loop.now() - self.began))
        if code is not None:
            event["error"] = code
        event["node"] = client.node
        if client.final:
            event["final"] = True
        self.events.append(event)


def _shown(message: Message) -> str:
    return quoted(message.line().strip())
