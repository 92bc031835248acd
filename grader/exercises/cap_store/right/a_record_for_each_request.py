"""One record for each request and two rounds to a majority (ABD); in AP the whole table goes to one peer a time."""

import json
from typing import Any

from grader.nodes import Node

PATIENCE = 1.5
GOSSIP = 0.4
NEVER = [0, ""]


class Store(Node):
    mode = "CP"

    def on_start(self) -> None:
        self.majority = (len(self.peers) + 1) // 2 + 1
        self.life = self.random.getrandbits(60)
        self.count = 0
        self.turn = 0
        self.pending: dict[str, dict[str, Any]] = {}
        if self.mode == "AP" and self.peers:
            self.set_timer("gossip", GOSSIP)

    # what this node has

    def have(self, name: str) -> list[Any]:
        return self.disk.get(name, [NEVER, None])

    def keep(self, name: str, stamp: list[Any], value: Any) -> None:
        if stamp > self.have(name)[0]:
            self.disk[name] = [stamp, value]

    # messages

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        kind = body["type"]
        if kind in ("read", "write"):
            if self.mode == "AP":
                self.answer_alone(body)
            else:
                self.begin(body)
        elif kind == "ask":
            self.send(src, {"type": "told", "number": body["number"], "copy": self.have(body["name"])})
        elif kind == "put":
            self.keep(body["name"], *body["copy"])
            self.send(src, {"type": "kept", "number": body["number"]})
        elif kind == "told":
            self.told(src, body)
        elif kind == "kept":
            self.kept(src, body)
        elif kind == "table":
            for name, stamp, value in body["rows"]:
                self.keep(name, stamp, value)

    def on_timer(self, name: str) -> None:
        if name == "gossip":
            peer = self.peers[self.turn % len(self.peers)]
            self.turn += 1
            self.send(peer, {"type": "table", "rows": [[row, *copy] for row, copy in self.disk.items()]})
            self.set_timer("gossip", GOSSIP)
        elif name in self.pending:
            record = self.pending.pop(name)
            self.reply(record["request"], {"type": "error", "code": 0, "text": "no majority in time"})

    # AP

    def answer_alone(self, body: dict[str, Any]) -> None:
        name = json.dumps(body["key"])
        stamp, value = self.have(name)
        if body["type"] == "read":
            self.reply(body, {"type": "read_ok", "value": value})
        else:
            self.disk[name] = [[stamp[0] + 1, self.id], body["value"]]
            self.reply(body, {"type": "write_ok"})

    # CP

    def begin(self, body: dict[str, Any]) -> None:
        self.count += 1
        number = f"{self.life}/{self.count}"
        name = json.dumps(body["key"])
        self.pending[number] = {
            "request": body,
            "name": name,
            "round": "ask",
            "nodes": {self.id},
            "best": self.have(name),
        }
        self.set_timer(number, PATIENCE)
        for peer in self.peers:
            self.send(peer, {"type": "ask", "number": number, "name": name})

    def told(self, src: str, body: dict[str, Any]) -> None:
        record = self.pending.get(body["number"])
        if record is None or record["round"] != "ask":
            return
        record["nodes"].add(src)
        record["best"] = max(record["best"], body["copy"], key=lambda copy: copy[0])
        if len(record["nodes"]) < self.majority:
            return
        stamp, value = record["best"]
        name, request = record["name"], record["request"]
        if request["type"] == "write":
            stamp = [max(stamp[0], self.have(name)[0][0]) + 1, self.id]
            value = request["value"]
        record.update(round="put", nodes={self.id}, best=[stamp, value])
        self.keep(name, stamp, value)
        for peer in self.peers:
            self.send(peer, {"type": "put", "number": body["number"], "name": name, "copy": [stamp, value]})

    def kept(self, src: str, body: dict[str, Any]) -> None:
        number = body["number"]
        record = self.pending.get(number)
        if record is None or record["round"] != "put":
            return
        record["nodes"].add(src)
        if len(record["nodes"]) < self.majority:
            return
        del self.pending[number]
        self.cancel_timer(number)
        request = record["request"]
        if request["type"] == "read":
            self.reply(request, {"type": "read_ok", "value": record["best"][1]})
        else:
            self.reply(request, {"type": "write_ok"})
