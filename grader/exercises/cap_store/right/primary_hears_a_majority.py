"""CP by one fixed primary that hears a majority for every request; AP by a Lamport clock, a flood and digests."""

import json
from typing import Any

from grader.nodes import Node

PATIENCE = 1.5
GOSSIP = 0.4
NEVER = [0, ""]


def row_of(key: Any) -> str:
    return "row:" + json.dumps(key)


def error() -> dict[str, Any]:
    return {"type": "error", "code": 0, "text": "the primary with a majority was not reached in time"}


class Store(Node):
    mode = "CP"

    def on_start(self) -> None:
        self.primary = min(self.id, *self.peers)
        self.majority = (len(self.peers) + 1) // 2 + 1
        self.life = self.random.getrandbits(60)
        self.count = 0
        self.turn = 0
        self.rounds: dict[str, dict[str, Any]] = {}  # at the primary
        self.asked: dict[str, Any] = {}  # elsewhere
        self.rows: dict[str, list[Any]] = {name: self.disk[name] for name in self.disk if name.startswith("row:")}
        self.clock = max((row[0][0] for row in self.rows.values()), default=0)
        if self.mode == "AP" and self.peers:
            self.set_timer("gossip", GOSSIP)

    def number(self) -> str:
        self.count += 1
        return f"{self.life}.{self.count}"

    # rows: [stamp, value]; every stamp this node makes is greater than all it has seen

    def row(self, name: str) -> list[Any]:
        return self.rows.get(name, [NEVER, None])

    def write(self, name: str, value: Any) -> list[Any]:
        self.clock += 1
        row = [[self.clock, self.id], value]
        self.merge(name, row)
        self.disk[name] = self.rows[name]
        return row

    def merge(self, name: str, row: list[Any]) -> bool:
        self.clock = max(self.clock, row[0][0])
        if row[0] > self.row(name)[0]:
            self.rows[name] = row
            return True
        return False

    def learn(self, name: str, row: list[Any]) -> None:
        if self.merge(name, row):
            self.disk[name] = row

    # messages

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        kind = body["type"]
        if kind in ("read", "write"):
            if self.mode == "AP":
                self.alone(body)
            elif self.id == self.primary:
                self.serve(body, ("client", body))
            else:
                self.forward(body)
        elif kind == "serve":
            self.serve(body["op"], ("node", src, body["ref"]))
        elif kind == "served":
            request = self.asked.pop(body["ref"], None)
            if request is not None:
                self.cancel_timer("asked " + body["ref"])
                self.reply(request, body["answer"])
        elif kind == "hear":
            if body["row"] is not None:
                self.learn(body["name"], body["row"])
            self.send(src, {"type": "heard", "number": body["number"]})
        elif kind == "heard":
            self.heard(src, body["number"])
        elif kind == "digest":
            self.compare(src, body["stamps"])
        elif kind == "rows":
            for name, row in body["rows"]:
                self.learn(name, row)
            if body["want"]:
                self.send(src, {"type": "rows", "rows": [[name, self.row(name)] for name in body["want"]], "want": []})

    def on_timer(self, name: str) -> None:
        if name == "gossip":
            peer = self.peers[self.turn % len(self.peers)]
            self.turn += 1
            self.send(peer, {"type": "digest", "stamps": [[row, kept[0]] for row, kept in self.rows.items()]})
            self.set_timer("gossip", GOSSIP)
            return
        what, number = name.split(" ")
        if what == "asked" and number in self.asked:
            self.reply(self.asked.pop(number), error())
        elif what == "round" and number in self.rounds:
            back = self.rounds.pop(number)["back"]
            if back[0] == "client":
                self.reply(back[1], error())

    # CP: everybody asks the primary

    def forward(self, body: dict[str, Any]) -> None:
        ref = self.number()
        self.asked[ref] = body
        self.set_timer("asked " + ref, PATIENCE)
        op = {field: body[field] for field in ("type", "key", "value") if field in body}
        self.send(self.primary, {"type": "serve", "ref": ref, "op": op})

    def serve(self, op: dict[str, Any], back: tuple[Any, ...]) -> None:
        number, name = self.number(), row_of(op["key"])
        row = self.write(name, op["value"]) if op["type"] == "write" else None
        self.rounds[number] = {"op": op, "back": back, "nodes": {self.id}}
        self.set_timer("round " + number, PATIENCE)
        for peer in self.peers:
            self.send(peer, {"type": "hear", "number": number, "name": name, "row": row})

    def heard(self, src: str, number: str) -> None:
        round_ = self.rounds.get(number)
        if round_ is None:
            return
        round_["nodes"].add(src)
        if len(round_["nodes"]) < self.majority:
            return
        del self.rounds[number]
        self.cancel_timer("round " + number)
        op, back = round_["op"], round_["back"]
        if op["type"] == "write":
            answer = {"type": "write_ok"}
        else:
            answer = {"type": "read_ok", "value": self.row(row_of(op["key"]))[1]}
        if back[0] == "client":
            self.reply(back[1], answer)
        else:
            self.send(back[1], {"type": "served", "ref": back[2], "answer": answer})

    # AP

    def alone(self, body: dict[str, Any]) -> None:
        name = row_of(body["key"])
        if body["type"] == "read":
            self.reply(body, {"type": "read_ok", "value": self.row(name)[1]})
            return
        row = self.write(name, body["value"])
        self.reply(body, {"type": "write_ok"})
        for peer in self.peers:
            self.send(peer, {"type": "rows", "rows": [[name, row]], "want": []})

    def compare(self, src: str, stamps: list[Any]) -> None:
        theirs = {name: stamp for name, stamp in stamps}
        newer = [[name, row] for name, row in self.rows.items() if row[0] > theirs.get(name, NEVER)]
        want = [name for name, stamp in theirs.items() if stamp > self.row(name)[0]]
        if newer or want:
            self.send(src, {"type": "rows", "rows": newer, "want": want})
