"""Asks no more replicas than the quorum needs, the rest after 0.25 s; writes back only to those that lack it."""

import json
from typing import Any

from grader.nodes import Node

HEDGE = 0.25


class Operation:
    def __init__(self, request: Any, name: str, order: list[str]) -> None:
        self.request, self.name, self.order = request, name, order
        self.step = "query"
        self.told: dict[str, list[Any]] = {}
        self.holders: set[str] = set()
        self.copy: list[Any] = []
        self.asked: set[str] = set()


class QuorumStore(Node):
    write_quorum: int
    read_quorum: int

    def on_start(self) -> None:
        self.life = self.random.getrandbits(62)
        self.count = 0
        self.operations: dict[str, Operation] = {}

    def have(self, name: str) -> list[Any]:
        return self.disk.get(name, [[0, ""], None])

    def take(self, name: str, copy: list[Any]) -> None:
        if copy[0] > self.have(name)[0]:
            self.disk[name] = copy

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        kind = body["type"]
        if kind in ("read", "write"):
            self.count += 1
            number = f"{self.life}-{self.count}"
            name = json.dumps(body["key"])
            operation = Operation(body, name, self.random.sample(self.peers, len(self.peers)))
            self.operations[number] = operation
            operation.told[self.id] = self.have(name)
            self.go_on(number, operation)
            return
        if kind == "query":
            self.send(src, {"type": "told", "number": body["number"], "copy": self.have(body["name"])})
            return
        if kind == "store":
            self.take(body["name"], body["copy"])
            self.send(src, {"type": "stored", "number": body["number"]})
            return
        number = body["number"]
        operation = self.operations.get(number)
        if operation is None:
            return
        if kind == "told" and operation.step == "query":
            operation.told[src] = body["copy"]
            if len(operation.told) >= self.read_quorum:
                self.store(number, operation)
        elif kind == "stored" and operation.step == "store":
            operation.holders.add(src)
            if len(operation.holders) >= self.write_quorum:
                self.finish(number, operation)

    def on_timer(self, name: str) -> None:
        if name in self.operations:
            self.spread(name, self.operations[name], len(self.peers))

    def spread(self, number: str, operation: Operation, some: int) -> None:
        """Put the question of this step to so many more replicas; to the rest by and by."""
        rest = [peer for peer in operation.order if peer not in operation.asked]
        for peer in rest[:some]:
            operation.asked.add(peer)
            question = {"type": operation.step, "number": number, "name": operation.name}
            if operation.step == "store":
                question["copy"] = operation.copy
            self.send(peer, question)
        if len(rest) > some:
            self.set_timer(number, HEDGE)

    def go_on(self, number: str, operation: Operation) -> None:
        if self.read_quorum <= 1:
            self.store(number, operation)
        else:
            self.spread(number, operation, self.read_quorum - 1)

    def store(self, number: str, operation: Operation) -> None:
        self.cancel_timer(number)
        copy = max(operation.told.values(), key=lambda told: told[0])
        if operation.request["type"] == "write":
            counter = max(copy[0][0], self.have(operation.name)[0][0])
            copy = [[counter + 1, self.id], operation.request["value"]]
        operation.step, operation.copy = "store", copy
        self.take(operation.name, copy)
        operation.holders = {node for node, told in operation.told.items() if told[0] == copy[0]} | {self.id}
        if len(operation.holders) >= self.write_quorum:
            self.finish(number, operation)
            return
        operation.asked = set(operation.holders)
        operation.order.sort(key=lambda peer: peer not in operation.told)
        self.spread(number, operation, self.write_quorum - len(operation.holders))

    def finish(self, number: str, operation: Operation) -> None:
        del self.operations[number]
        self.cancel_timer(number)
        if operation.request["type"] == "read":
            self.reply(operation.request, {"type": "read_ok", "value": operation.copy[1]})
        else:
            self.reply(operation.request, {"type": "write_ok"})
