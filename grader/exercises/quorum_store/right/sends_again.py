"""Sends again what was not answered, and gives up with error 0 after 1.5 s; dataclasses, one timer for all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from grader.nodes import Node

AGAIN, PATIENCE = 0.25, 1.5


@dataclass(order=True, frozen=True)
class Stamp:
    counter: int = 0
    writer: str = ""

    @classmethod
    def of(cls, told: list[Any]) -> Stamp:
        return cls(*told)

    def told(self) -> list[Any]:
        return [self.counter, self.writer]


@dataclass
class Operation:
    request: dict[str, Any]
    began: float
    message: dict[str, Any]
    phase: str = "ask"
    answered: set[str] = field(default_factory=set)
    best: Stamp = field(default_factory=Stamp)
    value: Any = None


class QuorumStore(Node):
    def on_start(self) -> None:
        self.operations: dict[int, Operation] = {}
        if "epoch" not in self.disk:
            self.disk["epoch"] = 0
            self.disk["copies"] = []
        self.disk["epoch"] += 1
        self.next = self.disk["epoch"] * 1_000_000
        self.copies = {key: (Stamp.of(stamp), value) for key, stamp, value in self.disk["copies"]}

    def put(self, key: Any, stamp: Stamp, value: Any) -> None:
        if key not in self.copies or self.copies[key][0] < stamp:
            self.copies[key] = stamp, value
            self.disk["copies"] = [[key, stamp.told(), value] for key, (stamp, value) in self.copies.items()]

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        getattr(self, "on_" + body["type"])(src, body)

    def on_read(self, src: str, body: dict[str, Any]) -> None:
        self.next += 1
        operation = Operation(body, self.now(), {"type": "ask", "op": self.next, "key": body["key"]})
        self.operations[self.next] = operation
        self.spread(operation)
        self.set_timer("again", AGAIN)
        operation.best, operation.value = self.copies.get(body["key"], (Stamp(), None))
        self.count(self.next, self.id)

    on_write = on_read

    def spread(self, operation: Operation) -> None:
        for peer in self.peers:
            if peer not in operation.answered:
                self.send(peer, operation.message)

    def on_timer(self, name: str) -> None:
        for number, operation in list(self.operations.items()):
            if self.now() - operation.began > PATIENCE:
                del self.operations[number]
                self.reply(operation.request, {"type": "error", "code": 0, "text": "no quorum in time"})
            else:
                self.spread(operation)
        if self.operations:
            self.set_timer("again", AGAIN)

    def on_ask(self, src: str, body: dict[str, Any]) -> None:
        stamp, value = self.copies.get(body["key"], (Stamp(), None))
        self.send(src, {"type": "told", "op": body["op"], "stamp": stamp.told(), "value": value})

    def on_told(self, src: str, body: dict[str, Any]) -> None:
        operation = self.operations.get(body["op"])
        if operation and operation.phase == "ask":
            stamp = Stamp.of(body["stamp"])
            if stamp > operation.best:
                operation.best, operation.value = stamp, body["value"]
            self.count(body["op"], src)

    def on_keep(self, src: str, body: dict[str, Any]) -> None:
        self.put(body["key"], Stamp.of(body["stamp"]), body["value"])
        self.send(src, {"type": "kept", "op": body["op"]})

    def on_kept(self, src: str, body: dict[str, Any]) -> None:
        operation = self.operations.get(body["op"])
        if operation and operation.phase == "keep":
            self.count(body["op"], src)

    def count(self, number: int, src: str) -> None:
        operation = self.operations[number]
        operation.answered.add(src)
        request, key = operation.request, operation.request["key"]
        if operation.phase == "ask" and len(operation.answered) >= self.read_quorum:
            if request["type"] == "write":
                newest = max(operation.best, self.copies.get(key, (Stamp(), None))[0])
                operation.best, operation.value = Stamp(newest.counter + 1, self.id), request["value"]
            self.put(key, operation.best, operation.value)
            operation.phase, operation.answered = "keep", set()
            operation.message = {
                "type": "keep", "op": number, "key": key, "stamp": operation.best.told(), "value": operation.value,
            }  # fmt: skip
            self.spread(operation)
            self.count(number, self.id)
        elif operation.phase == "keep" and len(operation.answered) >= self.write_quorum:
            del self.operations[number]
            if request["type"] == "write":
                self.reply(request, {"type": "write_ok"})
            else:
                self.reply(request, {"type": "read_ok", "value": operation.value})
