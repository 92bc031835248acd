"""One record for each request, everybody is asked, no timers: silence where there is no quorum."""

import json
from typing import Any

from grader.nodes import Node


class Request:
    def __init__(self, body: Any, name: str) -> None:
        self.body, self.name = body, name
        self.told: dict[str, list[Any]] = {}  # node -> its copy
        self.stored: set[str] | None = None  # None while copies are asked for
        self.value: Any = None


class QuorumStore(Node):
    write_quorum: int
    read_quorum: int

    def on_start(self) -> None:
        self.life = self.random.getrandbits(62)
        self.count = 0
        self.requests: dict[str, Request] = {}

    def have(self, name: str) -> list[Any]:
        return self.disk.get(name, [[0, ""], None])

    def put(self, name: str, stamp: list[Any], value: Any) -> None:
        if stamp > self.have(name)[0]:
            self.disk[name] = [stamp, value]

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        kind = body["type"]
        if kind in ("read", "write"):
            self.begin(body)
        elif kind == "query":
            self.send(src, {"type": "copy", "number": body["number"], "copy": self.have(body["name"])})
        elif kind == "store":
            self.put(body["name"], body["stamp"], body["value"])
            self.send(src, {"type": "stored", "number": body["number"]})
        elif kind == "copy":
            request = self.requests.get(body["number"])
            if request is not None and request.stored is None:
                request.told[src] = body["copy"]
                self.asked(body["number"], request)
        elif kind == "stored":
            request = self.requests.get(body["number"])
            if request is not None and request.stored is not None:
                request.stored.add(src)
                self.settle(body["number"], request)

    def begin(self, body: dict[str, Any]) -> None:
        self.count += 1
        number = f"{self.life}-{self.count}"
        request = self.requests[number] = Request(body, json.dumps(body["key"]))
        request.told[self.id] = self.have(request.name)
        if self.read_quorum > 1:
            for peer in self.peers:
                self.send(peer, {"type": "query", "number": number, "name": request.name})
        self.asked(number, request)

    def asked(self, number: str, request: Request) -> None:
        if len(request.told) < self.read_quorum:
            return
        stamp, value = max(request.told.values(), key=lambda copy: copy[0])
        if request.body["type"] == "write":
            stamp = [max(stamp[0], self.have(request.name)[0][0]) + 1, self.id]
            value = request.body["value"]
        request.value = value
        request.stored = {self.id}
        self.put(request.name, stamp, value)
        for peer in self.peers:
            self.send(
                peer, {"type": "store", "number": number, "name": request.name, "stamp": stamp, "value": value}
            )
        self.settle(number, request)

    def settle(self, number: str, request: Request) -> None:
        if len(request.stored or ()) >= self.write_quorum:
            del self.requests[number]
            if request.body["type"] == "read":
                self.reply(request.body, {"type": "read_ok", "value": request.value})
            else:
                self.reply(request.body, {"type": "write_ok"})
