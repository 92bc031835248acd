"""CP as generators that wait for a majority (reads of one round when it agrees); AP keeps siblings by version vectors."""

import json
from collections.abc import Generator
from typing import Any

from grader.nodes import Node

PATIENCE = 1.5
GOSSIP = 0.4


def covers(old: dict[str, int], new: dict[str, int]) -> bool:
    return all(new.get(node, 0) >= count for node, count in old.items())


def rank(version: list[Any]) -> tuple[int, str]:
    clock, writer, _ = version
    return sum(clock.values()), writer


def newest(versions: list[Any]) -> list[Any]:
    """The versions [clock, writer, value] that no other one follows, the one to be shown last."""
    kept: list[Any] = []
    for version in versions:
        if not any(covers(version[0], other[0]) for other in kept):
            kept = [other for other in kept if not covers(other[0], version[0])] + [version]
    return sorted(kept, key=rank)


class Call:
    def __init__(self, request: Any, steps: Generator[Any, Any, Any]) -> None:
        self.request, self.steps = request, steps
        self.round = 0
        self.answers: dict[str, Any] = {}


class Store(Node):
    mode = "CP"

    def on_start(self) -> None:
        self.majority = (len(self.peers) + 1) // 2 + 1
        self.life = self.random.getrandbits(60)
        self.count = 0
        self.turn = 0
        self.calls: dict[str, Call] = {}
        if self.mode == "AP" and self.peers:
            self.set_timer("gossip", GOSSIP)

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        kind = body["type"]
        if kind in ("read", "write"):
            name = json.dumps(body["key"])
            if self.mode == "AP":
                self.alone(body, name)
            elif kind == "read":
                self.start(body, self.read(name))
            else:
                self.start(body, self.write(name, body["value"]))
        elif kind == "question":
            answer = self.answer(body["question"])
            self.send(src, {"type": "answer", "number": body["number"], "round": body["round"], "copy": answer})
        elif kind == "answer":
            call = self.calls.get(body["number"])
            if call is None or body["round"] != call.round:
                return
            call.answers[src] = body["copy"]
            if len(call.answers) >= self.majority:
                self.resume(body["number"], call, call.answers)
        elif kind == "table":
            self.table(src, body)

    def on_timer(self, name: str) -> None:
        if name == "gossip":
            peer = self.peers[self.turn % len(self.peers)]
            self.turn += 1
            self.send(peer, {"type": "table", "rows": list(map(list, self.disk.items())), "asks": True})
            self.set_timer("gossip", GOSSIP)
        elif name in self.calls:
            call = self.calls.pop(name)
            self.reply(call.request, {"type": "error", "code": 0, "text": "no majority answered in time"})

    # CP: a copy is [[counter, node], value]

    def have(self, name: str) -> list[Any]:
        return self.disk.get(name, [[0, ""], None])

    def answer(self, question: dict[str, Any]) -> list[Any]:
        name = question["name"]
        if "copy" in question and question["copy"][0] > self.have(name)[0]:
            self.disk[name] = question["copy"]
        return self.have(name)

    def start(self, request: Any, steps: Generator[Any, Any, Any]) -> None:
        self.count += 1
        number = f"{self.life}:{self.count}"
        call = self.calls[number] = Call(request, steps)
        self.set_timer(number, PATIENCE)
        self.resume(number, call, None)

    def resume(self, number: str, call: Call, answers: Any) -> None:
        try:
            question = call.steps.send(answers)
        except StopIteration as end:
            del self.calls[number]
            self.cancel_timer(number)
            self.reply(call.request, end.value)
            return
        call.round += 1
        call.answers = {self.id: self.answer(question)}
        for peer in self.peers:
            self.send(peer, {"type": "question", "number": number, "round": call.round, "question": question})

    def read(self, name: str) -> Generator[Any, Any, Any]:
        found = yield {"name": name}
        best = max(found.values(), key=lambda copy: copy[0])
        if any(copy[0] != best[0] for copy in found.values()):
            yield {"name": name, "copy": best}
        return {"type": "read_ok", "value": best[1]}

    def write(self, name: str, value: Any) -> Generator[Any, Any, Any]:
        found = yield {"name": name}
        counter = max(copy[0][0] for copy in (*found.values(), self.have(name)))
        yield {"name": name, "copy": [[counter + 1, self.id], value]}
        return {"type": "write_ok"}

    # AP: under a name, all versions of which none follows another

    def alone(self, body: dict[str, Any], name: str) -> None:
        versions = self.disk.get(name, [])
        if body["type"] == "read":
            self.reply(body, {"type": "read_ok", "value": versions[-1][2] if versions else None})
            return
        clock: dict[str, int] = {}
        for seen, _, _ in versions:
            for node, count in seen.items():
                clock[node] = max(clock.get(node, 0), count)
        clock[self.id] = clock.get(self.id, 0) + 1
        self.disk[name] = [[clock, self.id, body["value"]]]
        self.reply(body, {"type": "write_ok"})

    def table(self, src: str, body: dict[str, Any]) -> None:
        theirs = dict(body["rows"])
        for name, versions in theirs.items():
            mine = self.disk.get(name, [])
            merged = newest(mine + versions)
            if merged != mine:
                self.disk[name] = merged
        if body["asks"]:
            rows = [[name, versions] for name, versions in self.disk.items() if theirs.get(name) != versions]
            if rows:
                self.send(src, {"type": "table", "rows": rows, "asks": False})
